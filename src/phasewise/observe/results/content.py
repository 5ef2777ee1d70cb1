"""A file's bytes to text and JSON documents; what cannot be a result is refused here."""

from __future__ import annotations

import json
import math
import re
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import msgspec

from phasewise.errors import InputError

LARGEST = 256 << 20
"""Bytes of a result file; one with a gap for each of a million tokens has some 20 MB."""

_HIGHEST = 1e20
"""No time, rate or count of a result is larger, in the unit of any tool: Unix time in ns has 19 digits."""

_SHOWN = 60

_COLOUR = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
"""What a terminal's output that was saved may hold between its words."""

_MAGIC = {
    b"SQLite format 3": "an SQLite file, as Nsight Systems exports: read it with `phasewise trace`",
    b"GGUF": "a model: judge what was measured with it, and name it with --model",
    b"PK\x03\x04": "a zip archive: unpack it",
    b"\x1f\x8b": "a gzip file: unpack it with gunzip; if it is a trace, read it with `phasewise trace`",
    b"\x28\xb5\x2f\xfd": "packed with zstd: unpack it with zstd -d",
    b"PAR1": "a Parquet file: name the tool's JSON",
    b"%PDF": "a PDF: give its numbers by flags, e.g. --ttft 50ms --prefill-tokens 2000",
}


def shown(path: Path) -> str:
    """A path as an error names it: no control characters."""
    return str(path) if str(path).isprintable() else ascii(str(path))


class Content(NamedTuple):
    """What a file holds.

    Attributes:
        path: where it lies.
        text: all of it.
        documents: the JSON documents in it: one, or one on each line; empty when it is no JSON.
    """

    path: Path
    text: str
    documents: tuple[Any, ...]

    @property
    def name(self) -> str:
        """As an error names it."""
        return shown(self.path)

    @property
    def objects(self) -> tuple[Mapping[str, Any], ...]:
        """The documents that are JSON objects; those of a list where the file is one list."""
        found = self.documents
        if len(found) == 1 and isinstance(found[0], list):
            found = tuple(found[0])
        return tuple(one for one in found if isinstance(one, Mapping))

    def has(self, *keys: str) -> bool:
        """Whether there are objects and the first has all these keys."""
        return bool(self.objects) and all(key in self.objects[0] for key in keys)

    def sole(self, models: Iterable[str]) -> str:
        """The one of ``models``, empty for none.

        Raises:
            InputError: there are several: their figures are of different work.
        """
        found = list(dict.fromkeys(name for name in models if name))
        if len(found) > 1:
            names = ", ".join(f"{name[:60]!a}" for name in found[:3])
            self.wrong(f"holds measurements of {len(found)} models ({names}): put those of each in a file of its own")
        return found[0] if found else ""

    def wrong(self, what: str) -> NoReturn:
        """Refuse the file because of ``what``, a clause that ends with the cure."""
        raise InputError(f"{self.name} {what}.")


def opened(path: Path) -> Content:
    """The content of ``path``.

    Raises:
        InputError: no regular file, too large, not text, empty, or JSON that is cut short or damaged.
    """
    data = _bytes(path)
    for magic, what in _MAGIC.items():
        if data.startswith(magic):
            raise InputError(f"{shown(path)} is {what}.")
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InputError(f"{shown(path)} is written in UTF-16: save it as UTF-8.")
    if b"\0" in data:
        raise InputError(f"{shown(path)} is no text file: name a tool's JSON, JSON lines, CSV, SQL or Markdown.")
    text = _COLOUR.sub("", data.decode("utf-8", "replace").removeprefix("\ufeff"))
    if not text.strip():
        raise InputError(f"{shown(path)} is empty: name the file that the tool wrote its results to.")
    start = text.lstrip()[:1]
    return Content(path, text, _documents(path, text) if start in ("{", "[") else ())


def _bytes(path: Path) -> bytes:
    try:
        about = path.stat()
        if stat.S_ISDIR(about.st_mode):
            raise InputError(f"{shown(path)} is a directory: name the file of results in it.")
        if not stat.S_ISREG(about.st_mode):
            raise InputError(f"{shown(path)} is no regular file: name a file of results.")
        if about.st_size > LARGEST:
            raise InputError(
                f"{shown(path)} has {about.st_size >> 20:,} MiB, more than the {LARGEST >> 20} of a result file: name "
                "the tool's summary."
            )
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{shown(path)} cannot be read ({error.strerror}): name a file of results.") from None


def _documents(path: Path, text: str) -> tuple[Any, ...]:
    """The documents of ``text``, which begins as JSON."""
    try:
        return (_json(text),)
    except _NotJSON as whole:
        lines = [line for line in text.splitlines() if line.strip()]
        if len(lines) < 2 or lines[0].strip() in ("{", "["):
            raise InputError(
                f"{shown(path)} is no valid JSON ({whole}): it is cut short or damaged, so write it again."
            ) from None
        if lines[0].lstrip()[:1] not in ("{", "[") or not lines[0].rstrip().endswith(("}", "]", "},")):
            return ()
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                found.append(_json(line))
            except _NotJSON as error:
                raise InputError(
                    f"{shown(path)} line {number:,} is no valid JSON ({error}): it is cut short or damaged, so write "
                    "it again."
                ) from None
    return tuple(found)


class _NotJSON(Exception):
    """Text that is no JSON, with what is wrong with it."""


def _json(text: str) -> Any:
    """One document. Python's NaN and Infinity, which JSON does not have, are read as what they mean."""
    try:
        return msgspec.json.decode(text)
    except RecursionError:
        raise _NotJSON("nested too deeply") from None
    except msgspec.DecodeError as error:
        why = str(error).partition(" (byte")[0].removeprefix("JSON is malformed: ")
    if "NaN" in text or "Infinity" in text:
        try:
            return json.loads(text)
        except RecursionError:
            raise _NotJSON("nested too deeply") from None
        except ValueError:
            pass
    raise _NotJSON(why)


class Fields:
    """Numbers of one JSON object by their keys."""

    def __init__(self, content: Content, tree: object, where: str = "") -> None:
        self.content, self.where = content, where
        self.tree: Mapping[str, Any] = tree if isinstance(tree, Mapping) else {}

    def number(self, *keys: str, scale: float = 1.0) -> float | None:
        """The positive number under the first of ``keys`` that is there, times ``scale``.

        None for a missing key, null, zero (what tools write for nothing) and NaN.

        Raises:
            InputError: something else than a number, a negative or an absurd one.
        """
        for key in keys:
            value = self.tree.get(key)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int | float):
                self.wrong(key, value, "which is no number")
            if math.isnan(value) or value == 0:
                return None
            if value < 0 or value > _HIGHEST:
                self.wrong(key, value, "which no measurement gives")
            return float(value) * scale
        return None

    def text(self, *keys: str) -> str:
        """The text under the first of ``keys`` that is there; empty when none is."""
        return next((self.tree[key] for key in keys if isinstance(self.tree.get(key), str)), "")

    def inner(self, key: str) -> Fields:
        """The object under ``key``; empty when there is none."""
        return Fields(self.content, self.tree.get(key), f"{self.where}{key}.")

    def items(self, key: str) -> Sequence[Any]:
        """The list under ``key``; empty when there is none."""
        value = self.tree.get(key)
        return value if isinstance(value, list) else ()

    def numbers(self, key: str) -> list[float]:
        """The list of finite, non-negative numbers under ``key``; empty when there is none.

        Raises:
            InputError: something else is in it.
        """
        found = []
        for value in self.items(key):
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _HIGHEST:
                self.wrong(key, value, "which no measurement gives")
            found.append(float(value))
        return found

    def wrong(self, key: str, value: object, why: str) -> NoReturn:
        """Refuse ``value`` under ``key``."""
        said = f"{value!r:.{_SHOWN}}".encode("ascii", "backslashreplace").decode()
        self.content.wrong(f"has {said} as {self.where}{key}, {why}: correct it, or measure again")


def each(content: Content, build: Callable[[Fields], Any]) -> list[Any]:
    """``build`` of every object of ``content``, each with its place in error messages."""
    many = len(content.objects) > 1
    return [
        build(Fields(content, tree, f"entry {number} " if many else ""))
        for number, tree in enumerate(content.objects, 1)
    ]
