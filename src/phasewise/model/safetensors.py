"""Headers of safetensors files: each tensor's name, dtype, shape and bytes. Nothing of the weights is read.

Format: docs of huggingface/safetensors: 8 bytes of length, little endian, then that much JSON.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import NamedTuple

from phasewise.errors import InputError
from phasewise.model.keys import shown

_MOST_HEADER = 100 * 2**20
"""Bytes of one header; the format's own limit."""

_MOST_FILES, _MOST_TENSORS = 2_000, 2_000_000
_BITS = {
    "F64": 64, "I64": 64, "U64": 64, "F32": 32, "I32": 32, "U32": 32, "F16": 16, "BF16": 16, "I16": 16, "U16": 16,
    "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "I8": 8, "U8": 8, "BOOL": 8, "F6_E2M3": 6, "F6_E3M2": 6, "F4": 4,
}  # fmt: skip


class Tensor(NamedTuple):
    """One tensor; ``elements`` is the product of its shape, as stored."""

    name: str
    dtype: str
    elements: int
    bytes: int


def tensors(directory: Path) -> tuple[Tensor, ...]:
    """All tensors of the .safetensors files in ``directory``; empty when there is none.

    Raises:
        InputError: a header that is damaged, or two tensors of one name.
    """
    files = sorted(file for file in directory.glob("*.safetensors") if os.path.isfile(file))[:_MOST_FILES]
    found = [tensor for file in files for tensor in _header(file)]
    if len({tensor.name for tensor in found}) < len(found):
        raise InputError(f"{shown(directory.name)} holds two tensors of one name: keep one checkpoint in it.")
    return tuple(found)


def _header(file: Path) -> list[Tensor]:
    where = shown(file.name)
    try:
        with open(file, "rb") as stream:
            size = int.from_bytes(stream.read(8), "little")
            if not 2 <= size <= min(_MOST_HEADER, os.fstat(stream.fileno()).st_size - 8):
                raise InputError(f"{where} is no safetensors file, or cut short: download it again.")
            header = json.loads(stream.read(size))
    except OSError as error:
        raise InputError(f"{where} cannot be read ({error.strerror}): make it readable or move it away.") from None
    except (ValueError, RecursionError):
        raise InputError(f"{where} has a damaged header: download it again.") from None
    if not isinstance(header, dict) or len(header) > _MOST_TENSORS:
        raise InputError(f"{where} has a damaged header: download it again.")
    return [_tensor(name, entry, where) for name, entry in header.items() if name != "__metadata__"]


def _tensor(name: str, entry: object, where: str) -> Tensor:
    entry = entry if isinstance(entry, dict) else {}
    dtype, shape = entry.get("dtype"), entry.get("shape")
    whole = isinstance(shape, list) and len(shape) <= 8 and all(type(n) is int and 0 <= n < 2**48 for n in shape)
    if not isinstance(dtype, str) or dtype not in _BITS or not isinstance(shape, list) or not whole:
        raise InputError(f"{where}: tensor {shown(name)} has no known dtype and shape: download it again.")
    elements = 1
    for length in shape:
        elements *= length
    return Tensor(name, dtype, elements, -(-elements * _BITS[dtype] // 8))
