"""The rows of accelerators.csv, read and validated.

The first line of the file names the columns; a column that holds numbers ends in their unit (``bandwidth_GB/s``). Rates
are dense (never sparse) and of one device; ``int8`` counts integer operations. ``aliases`` are other exact names of the
row, ``shared_names`` are names that it could be meant by but that do not say which version of it; both are separated by
semicolons. ``unverified`` lists columns (without unit) that the row's notes call unverified. Adding an accelerator is
one row. A user's own file has the same form and may leave columns away.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Literal, NamedTuple, cast, get_args

import msgspec

from phasewise.errors import InputError, UsageError
from phasewise.units import Unit, parse

FILE = Path(__file__).with_name("accelerators.csv")

Kind = Literal["gpu", "cpu", "tpu", "npu"]
Confidence = Literal["seen", "mixed", "derived", "conflict", "seen-conflict", "unverified"]
"""How far a row can be trusted; only a ``seen`` row was read as a whole in the sources that it names."""

DTYPES = ("bf16", "fp16", "fp8", "fp4", "int8", "fp32")
"""Number formats that a peak may be stated for."""

_UNITS: dict[str, Unit] = {"GB": "B", "GiB": "B", "GB/s": "B/s", "TFLOP/s": "FLOP/s", "W": "W"}
_TEXT = ("name", "vendor", "kind", "link", "confidence", "unverified", "source", "notes", "aliases", "shared_names")
_NUMBERS: dict[str, Unit] = {
    "memory": "B",
    "usable": "B",
    "bandwidth": "B/s",
    **dict.fromkeys(DTYPES, "FLOP/s"),
    "link_rate": "B/s",
    "tdp": "W",
    "measured_bf16": "FLOP/s",
    "measured_fp8": "FLOP/s",
}


class Accelerator(msgspec.Struct, frozen=True, kw_only=True):
    """One row: what the vendor says that one device can do, in SI.

    Attributes:
        name: catalogue name, lower case with hyphens.
        vendor: who makes it.
        kind: what it is.
        memory: nominal bytes.
        usable: bytes that a program sees, where that is known.
        bandwidth: bytes/s of reading its memory.
        peaks: dense FLOP/s by dtype; only the dtypes that a source states.
        link: what joins it to its neighbours, empty when nothing does.
        link_rate: bytes/s of that in one direction.
        tdp: watts.
        measured: FLOP/s that matmuls reach according to the sources, by dtype.
        confidence: how far the row can be trusted.
        unverified: columns that are taken on trust even in a ``seen`` row.
        source: where the figures were read.
        notes: what a reader must know.
        aliases: other exact names: the driver's own, the usual short ones.
        shared_names: names that do not say which version is meant, so that they are refused.
        origin: file and line of a user's own row; empty for the rows that phasewise ships.
    """

    name: str
    vendor: str
    kind: Kind
    memory: float
    usable: float | None
    bandwidth: float
    peaks: dict[str, float]
    link: str
    link_rate: float | None
    tdp: float | None
    measured: dict[str, float]
    confidence: Confidence
    unverified: tuple[str, ...]
    source: str
    notes: str
    aliases: tuple[str, ...]
    shared_names: tuple[str, ...]
    origin: str = ""


class _Column(NamedTuple):
    """A column of a file: its name, and its unit as written (empty for text)."""

    name: str
    unit: str


def normalised(name: str) -> str:
    """The form in which names are compared: case, spaces, underscores and hyphens do not count."""
    return re.sub(r"[\s_-]+", "", name.casefold())


def read(file: Path = FILE, *, own: bool = False) -> tuple[Accelerator, ...]:
    """All rows of ``file``, validated, in its order.

    Args:
        file: the table.
        own: a user's own table, which may leave columns away; its rows say where they come from.

    Raises:
        InputError: the file cannot be read, or a row is bad; the text names the file and the line.
    """
    rows: list[Accelerator] = []
    owners: dict[str, str] = {}
    shown = str(file) if own else file.name
    try:
        with file.open(encoding="utf-8-sig", newline="") as lines:
            reader = csv.reader(lines, strict=True)
            columns = _columns(next(reader, []), shown, own)
            for cells in reader:
                if not cells:
                    continue
                where = f"{shown} line {reader.line_num}"
                rows.append(_row(cells, columns, where, where if own else ""))
                _claim(rows[-1], owners, where)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        cure = "save it as CSV in UTF-8" if own else "reinstall phasewise"
        raise InputError(f"{file} is not a readable table of accelerators ({error}): {cure}.") from None
    _check_shared(rows, owners, shown)
    return tuple(rows)


def _columns(header: list[str], file: str, own: bool) -> list[_Column]:
    """The columns that the first line names."""
    columns = []
    for cell in (cell.strip() for cell in header):
        name, _, unit = cell.rpartition("_")
        columns.append(_Column(name, unit) if unit in _UNITS else _Column(cell, ""))
    names = [column.name for column in columns]
    all_known = all(_UNITS.get(unit) == _NUMBERS.get(name) for name, unit in columns)
    all_known = all_known and set(names) <= {*_TEXT, *_NUMBERS} and len(names) == len(set(names)) > 0
    if not all_known or not (own or len(names) == len(_TEXT) + len(_NUMBERS)):
        numbers = {unit: [name for name, one in _NUMBERS.items() if one == _UNITS[unit]] for unit in _UNITS}
        written = [f"{name}_{unit}" for unit, found in numbers.items() if unit != "GiB" for name in found]
        raise InputError(f"{file} line 1 must name the columns, each once: {', '.join((*_TEXT, *written))}.")
    return columns


def _row(cells: list[str], columns: list[_Column], where: str, origin: str) -> Accelerator:
    if len(cells) != len(columns):
        raise InputError(f"{where} has {len(cells)} cells, not {len(columns)}: quote cells that hold a comma.")
    text = dict.fromkeys(_TEXT, "") | ({"confidence": "unverified"} if origin else {})
    numbers: dict[str, float] = {}
    for cell, (name, unit) in zip((cell.strip() for cell in cells), columns, strict=True):
        if unit and cell:
            numbers[name] = _number(cell + unit, _UNITS[unit], f"{where}, column {name}")
        elif not unit and (cell or not origin):
            text[name] = cell
    _check(text, numbers, where)
    return Accelerator(
        name=text["name"],
        vendor=text["vendor"],
        kind=cast(Kind, text["kind"]),
        memory=numbers["memory"],
        usable=numbers.get("usable"),
        bandwidth=numbers["bandwidth"],
        peaks={dtype: numbers[dtype] for dtype in DTYPES if dtype in numbers},
        link=text["link"],
        link_rate=numbers.get("link_rate"),
        tdp=numbers.get("tdp"),
        measured={
            name.removeprefix("measured_"): value for name, value in numbers.items() if name.startswith("measured_")
        },
        confidence=cast(Confidence, text["confidence"]),
        unverified=tuple(text["unverified"].split()),
        source=text["source"],
        notes=text["notes"],
        aliases=_names(text["aliases"]),
        shared_names=_names(text["shared_names"]),
        origin=origin,
    )


def _number(text: str, unit: Unit, where: str) -> float:
    try:
        return parse(text, unit)
    except UsageError:
        raise InputError(f"{where}: {text!r} is not a positive number.") from None


def _names(cell: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in cell.split(";") if name.strip())


def _check(text: dict[str, str], numbers: dict[str, float], where: str) -> None:
    """Refuse a row whose words or figures cannot be right."""
    problems = {
        f"name {text['name']!r} is not lower case with hyphens": not re.fullmatch(r"[a-z0-9+-]+", text["name"]),
        f"kind {text['kind']!r} is not one of {', '.join(get_args(Kind))}": text["kind"] not in get_args(Kind),
        f"confidence {text['confidence']!r} is not one of {', '.join(get_args(Confidence))}": (
            text["confidence"] not in get_args(Confidence)
        ),
        "it names no source, so its confidence must be unverified": (
            text["source"] in ("", "none seen") and text["confidence"] != "unverified"
        ),
        "it states no memory or no bandwidth": not {"memory", "bandwidth"} <= numbers.keys(),
        "it states no peak": not numbers.keys() & set(DTYPES),
        "unverified names a column that is empty": not set(text["unverified"].split()) <= numbers.keys(),
    }
    for problem, found in problems.items():
        if found:
            raise InputError(f"{where}: {problem}.")


def _claim(row: Accelerator, owners: dict[str, str], where: str) -> None:
    """Give the row its names, each of which may be given once in the file."""
    for name in (row.name, *row.aliases):
        if normalised(name) in owners:
            raise InputError(f"{where}: {name!r} names {owners[normalised(name)]} already.")
        owners[normalised(name)] = row.name


def _check_shared(rows: list[Accelerator], owners: dict[str, str], file: str) -> None:
    for row in rows:
        for name in row.shared_names:
            if normalised(name) in owners:
                owner = owners[normalised(name)]
                raise InputError(f"{file}: the shared name {name!r} of {row.name} is the own name of {owner}.")
