"""Reading the header of a GGUF file: metadata, and each tensor's name, shape, type and exact bytes.

Format: docs/gguf.md of ggml-org/ggml, versions 2 and 3, little endian. Only the header's pages are touched; long arrays
(the vocabulary) are counted and skipped. Every length in the file is checked against the bytes that are left, so a
damaged or hostile file costs an InputError, in time and memory that its size bounds.
"""

from __future__ import annotations

import mmap
import os
import struct
from pathlib import Path
from typing import NamedTuple

import msgspec

from phasewise.errors import InputError
from phasewise.model.gguf_types import TYPES, GgmlType
from phasewise.model.keys import shown

MAGIC = b"GGUF"

_MOST_STRINGS = 4_000_000
"""Strings that a header's arrays may hold in all; the longest vocabularies and merges together are under 1 million."""

_MOST_TENSORS, _MOST_ENTRIES = 65_536, 4_096
"""Tensors, and metadata entries; the largest models have a few thousand tensors and under a hundred entries."""

_KEPT = 1_024
"""Elements of an array (one per layer in some models), or bytes of a string, up to which it is kept."""

_U32, _U64 = struct.Struct("<I"), struct.Struct("<Q")
_STRING, _ARRAY = 8, 9
_SCALARS = {
    0: struct.Struct("<B"),
    1: struct.Struct("<b"),
    2: struct.Struct("<H"),
    3: struct.Struct("<h"),
    4: _U32,
    5: struct.Struct("<i"),
    6: struct.Struct("<f"),
    7: struct.Struct("<?"),
    10: _U64,
    11: struct.Struct("<q"),
    12: struct.Struct("<d"),
}

Scalar = int | float | bool | str


class Tensor(NamedTuple):
    """One tensor. ``shape`` is in ggml's order: the dimension that is contiguous, a matmul's input, comes first."""

    name: str
    shape: tuple[int, ...]
    type: GgmlType
    elements: int
    bytes: int


class GgufHeader(msgspec.Struct, frozen=True, kw_only=True):
    """What a GGUF file says of itself.

    Attributes:
        version: of the format, 2 or 3.
        metadata: scalars, and number arrays of up to 1,024 elements; strings are cut to 1,024 bytes.
        array_lengths: elements of every array, kept or not.
        tensors: in the file's order.
    """

    version: int
    metadata: dict[str, Scalar | tuple[Scalar, ...]]
    array_lengths: dict[str, int]
    tensors: tuple[Tensor, ...]

    @property
    def architecture(self) -> str:
        """``general.architecture``, empty when the file does not say."""
        name = self.metadata.get("general.architecture")
        return name if isinstance(name, str) else ""

    @property
    def vocabulary(self) -> int | None:
        """Tokens in the tokenizer's list, None when there is none."""
        return self.array_lengths.get("tokenizer.ggml.tokens")


def read_header(path: Path) -> GgufHeader:
    """Read the header of ``path``.

    Raises:
        InputError: not a GGUF file, a version or byte order that is not read, truncated, or damaged.
    """
    where = shown(path.name)
    try:
        if not os.path.isfile(path):
            raise InputError(f"{where} is not a file: name a .gguf file.")
        with open(path, "rb") as file:
            if file.read(4) != MAGIC:
                raise InputError(f"{where} is not a GGUF file (it does not begin with GGUF): name a .gguf file.")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return _header(_Cursor(data, where))
    except OSError as error:
        raise InputError(f"{where} cannot be read ({error.strerror}): name a readable .gguf file.") from None


class _Cursor:
    """A place in the file that never moves past its end."""

    def __init__(self, data: mmap.mmap, where: str) -> None:
        self.data = data
        self.where = where
        self.size = len(data)
        self.at = len(MAGIC)
        self.strings = 0

    def error(self, what: str) -> InputError:
        return InputError(f"{self.where}: {what} at byte {self.at:,}: download or convert the file again.")

    def need(self, count: int, what: str) -> None:
        if count > self.size - self.at:
            raise self.error(f"{what} runs past the end of the file")

    def number(self, layout: struct.Struct, what: str) -> int:
        self.need(layout.size, what)
        (value,) = layout.unpack_from(self.data, self.at)
        self.at += layout.size
        return value  # type: ignore[no-any-return]

    def string(self, what: str) -> str:
        length = self.number(_U64, what)
        self.need(length, what)
        text = self.data[self.at : self.at + min(length, _KEPT)].decode("utf-8", "replace")
        self.at += length
        return text

    def skip_strings(self, count: int, what: str) -> None:
        self.strings += count
        if self.strings > _MOST_STRINGS:
            raise self.error(f"{what} holds {count:,} strings, more than any vocabulary,")
        at, unpack, data = self.at, _U64.unpack_from, self.data
        try:
            for _ in range(count):
                at += 8 + unpack(data, at)[0]
        except (struct.error, OverflowError):
            at = self.size + 1
        if at > self.size:
            raise self.error(f"{what} runs past the end of the file")
        self.at = at


def _header(cursor: _Cursor) -> GgufHeader:
    version = cursor.number(_U32, "the version")
    if version not in (2, 3):
        if int.from_bytes(version.to_bytes(4, "little"), "big") in (1, 2, 3):
            raise InputError(f"{cursor.where} is a big-endian GGUF file: convert it to little endian.")
        raise InputError(f"{cursor.where} is GGUF version {version}; versions 2 and 3 are read: convert it again.")
    tensors, entries = cursor.number(_U64, "the tensor count"), cursor.number(_U64, "the metadata count")
    if tensors > _MOST_TENSORS or entries > _MOST_ENTRIES:
        raise cursor.error(f"{tensors:,} tensors and {entries:,} metadata entries cannot be right")
    metadata: dict[str, Scalar | tuple[Scalar, ...]] = {}
    lengths: dict[str, int] = {}
    for _ in range(entries):
        key = cursor.string("a metadata key")
        _value(cursor, key, metadata, lengths)
    found = [_tensor(cursor) for _ in range(tensors)]
    _check_bounds(cursor, metadata, found)
    return GgufHeader(
        version=version, metadata=metadata, array_lengths=lengths, tensors=tuple(tensor for tensor, _ in found)
    )


def _value(
    cursor: _Cursor, key: str, metadata: dict[str, Scalar | tuple[Scalar, ...]], lengths: dict[str, int]
) -> None:
    name = shown(key)
    kind = cursor.number(_U32, name)
    if kind == _STRING:
        metadata[key] = cursor.string(name)
    elif kind in _SCALARS:
        metadata[key] = cursor.number(_SCALARS[kind], name)
    elif kind == _ARRAY:
        kind, count = cursor.number(_U32, name), cursor.number(_U64, name)
        lengths[key] = count
        if kind == _STRING:
            cursor.need(8 * count, name)
            cursor.skip_strings(count, name)
        elif kind in _SCALARS:
            cursor.need(_SCALARS[kind].size * count, name)
            if count <= _KEPT:
                metadata[key] = tuple(cursor.number(_SCALARS[kind], name) for _ in range(count))
            else:
                cursor.at += _SCALARS[kind].size * count
        else:
            raise cursor.error(f"{name} is an array of type {kind}, which no model file uses,")
    else:
        raise cursor.error(f"{name} has the unknown type {kind}")


def _tensor(cursor: _Cursor) -> tuple[Tensor, int]:
    name = cursor.string("a tensor's name")
    what = f"tensor {shown(name)}"
    dimensions = cursor.number(_U32, what)
    if not 1 <= dimensions <= 4:
        raise cursor.error(f"{what} has {dimensions} dimensions, not 1 to 4,")
    shape = tuple(cursor.number(_U64, what) for _ in range(dimensions))
    number, offset = cursor.number(_U32, what), cursor.number(_U64, what)
    if number not in TYPES:
        raise cursor.error(f"{what} has the unknown storage type {number}")
    kind, elements = TYPES[number], 1
    for dimension in shape:
        elements *= dimension
    if elements == 0 or shape[0] % kind.block:
        raise cursor.error(f"{what} has a shape {list(shape)} that {kind.name} cannot store")
    return Tensor(name, shape, kind, elements, elements // kind.block * kind.bytes), offset


def _check_bounds(
    cursor: _Cursor, metadata: dict[str, Scalar | tuple[Scalar, ...]], found: list[tuple[Tensor, int]]
) -> None:
    alignment = metadata.get("general.alignment", 32)
    if not isinstance(alignment, int) or isinstance(alignment, bool) or not 1 <= alignment <= 2**20:
        raise cursor.error("general.alignment is no alignment")
    start = -(-cursor.at // alignment) * alignment
    if len({tensor.name for tensor, _ in found}) < len(found):
        raise cursor.error("two tensors have one name")
    for tensor, offset in found:
        end = start + offset + tensor.bytes
        if end > cursor.size:
            raise InputError(
                f"{cursor.where} is cut short: tensor {shown(tensor.name)} ends at byte {end:,} and the file has "
                f"{cursor.size:,}: download it again."
            )
    if sum(tensor.bytes for tensor, _ in found) > cursor.size:
        raise cursor.error("the tensors overlap")
