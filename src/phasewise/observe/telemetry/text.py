"""A telemetry file as lines of text, and lines as fields."""

from __future__ import annotations

import csv
import re
import stat
from collections.abc import Sequence
from pathlib import Path

from phasewise.errors import InputError

_LARGEST = 256 << 20
"""Bytes; a day of eight GPUs at 10 Hz in nvidia-smi's widest CSV."""

_MARKS = (
    (b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16")
)  # fmt: skip
"""Byte order marks; PowerShell's ``>`` writes UTF-16."""


def lines(path: Path) -> list[str]:
    """The lines of a text file.

    Raises:
        InputError: it cannot be read, is no text, or too large.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise InputError(f"{path} is no regular file: name a file that a monitor wrote.")
        if path.stat().st_size > _LARGEST:
            raise InputError(f"{path} is over {_LARGEST >> 20} MiB: cut it to the time of the run.")
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}): name a file that a monitor wrote.") from None
    encoding = next((name for mark, name in _MARKS if data.startswith(mark)), "utf-8")
    text = data.decode(encoding, "replace")
    if "\0" in text:
        raise InputError(f"{path} is no text (it holds NUL bytes): name a CSV or text file that a monitor wrote.")
    return re.split(r"\r\n|\r|\n", text)  # not splitlines(): a name may hold a form feed


def delimiter(header: str) -> str:
    """What parts the fields of a CSV with that header; a spreadsheet of some countries writes semicolons."""
    return max(",;\t", key=header.count)


def fields(line: str, by: str) -> list[str]:
    """The fields of one line of a CSV, without the spaces around them; a list in brackets is one field."""
    if "[" in line and by == ",":
        line = re.sub(r"\[[^\[\]]*\]", lambda found: found[0].replace(",", ";"), line)
    try:
        return [field.strip() for field in next(csv.reader([line], delimiter=by, skipinitialspace=True), [])]
    except csv.Error:
        return []


def bare(name: str) -> str:
    """A column's name without its unit: ``power.draw [W]`` and ``Power (W)`` lose what stands in brackets."""
    return re.sub(r"\s*[\[(][^\])]*[\])]\s*$", "", name).strip().lower()


def first(names: Sequence[str], wanted: Sequence[str]) -> int | None:
    """Where the first of ``wanted`` that is there stands among ``names``."""
    return next((names.index(name) for name in wanted if name in names), None)
