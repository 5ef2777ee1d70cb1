"""Rows out of a CSV with a header, for the monitors that write one: which column fills which field."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from phasewise.observe.telemetry import text
from phasewise.observe.telemetry.rows import Clock, Row, Rows, Unusable, by_one_clock, number, scale
from phasewise.observe.telemetry.times import moment

TIMES = ("timestamp", "time", "datetime", "date_time", "timestamp_utc", "timestamp_epoch", "epoch", "unix_time")
"""Names under which a time stands; ``date`` beside ``time`` is joined to it."""


class Column(NamedTuple):
    """A field of a reading: the columns that may fill it, best first, and the factor to SI where it names no unit."""

    field: str
    names: tuple[str, ...]
    usual: float = 1.0


class Form(NamedTuple):
    """How one monitor writes.

    ``extra`` makes further values of a row out of its fields by name (bits, words); ``device`` reads the device's
    number out of its field.
    """

    columns: tuple[Column, ...]
    devices: tuple[str, ...]
    uuids: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    extra: Callable[[Mapping[str, str]], dict[str, float]] = lambda named: {}
    device: Callable[[str], float | None] = number


class _Header(NamedTuple):
    """A header as it was met: what parts fields, the bare names, and the names as written."""

    by: str
    names: list[str]
    written: list[str]


def read(lines: Sequence[str], form: Form, is_header: Callable[[str], bool]) -> Rows:
    """Every row below a header; a header met again, with its columns or others, holds from there on.

    Raises:
        Unusable: no header, no power in it, or no row of use.
    """
    header, rows, damaged, blank, ticks = None, list[tuple[Row, Clock]](), 0, 0, dict[int, int]()
    uuids: dict[str, int] = {}
    for line in lines:
        if not line.strip():
            continue
        if is_header(line):
            header = _header(line)
            continue
        if header is None:
            continue
        found = text.fields(line, header.by)
        while len(found) > len(header.names) and not found[-1]:
            found.pop()
        if len(found) != len(header.names):
            damaged += 1
            continue
        named = dict(zip(header.names, found, strict=True))
        if _units(named):
            continue
        device = _device(named, form, uuids)
        when = _when(named)
        values = _values(named, header, form)
        if device is None or not values:
            blank += 1
            continue
        ticks[device] = ticks.get(device, -1) + 1
        at = float(ticks[device]) if when is None else when[0]
        row = Row(at, device, values, _named(named, form.uuids), _named(named, form.models))
        rows.append((row, "none" if when is None else when[1]))
    if header is None:
        raise Unusable("has no header: write it with one (--format=csv, without noheader).")
    if not any("watts" in row.values or "joules" in row.values for row, _ in rows):
        raise Unusable(_empty(header, form, blank, damaged))
    kept, clock, without = by_one_clock(rows)
    return Rows(kept, clock, notes=_notes(damaged + without, blank, len(kept)))


def _header(line: str) -> _Header:
    by = text.delimiter(line)
    written = text.fields(line.lstrip("# "), by)
    return _Header(by, [text.bare(name) for name in written], written)


def _units(named: Mapping[str, str]) -> bool:
    """Whether a row is a second header that holds units (``s, Idx, W, C``)."""
    return not any(character.isdigit() for value in named.values() for character in value) and any(
        value.strip("[]") in ("W", "MHz", "C", "%", "Idx") for value in named.values()
    )


def _device(named: Mapping[str, str], form: Form, uuids: dict[str, int]) -> int | None:
    """The device's number: as said, else by its UUID in the order in which they are met, else 0."""
    for name in form.devices:
        if name in named:
            value = form.device(named[name])
            return int(value) if value is not None and 0 <= value < 1e6 else None
    unique = _named(named, form.uuids)
    return uuids.setdefault(unique, len(uuids)) if unique else 0


def _when(named: Mapping[str, str]) -> tuple[float, Clock] | None:
    for name in TIMES:
        if name in named:
            said = f"{named['date']} {named[name]}" if name == "time" and named.get("date") else named[name]
            return moment(said) or None
    return None


def _values(named: Mapping[str, str], header: _Header, form: Form) -> dict[str, float]:
    found = {}
    for column in form.columns:
        for name in column.names:
            value = number(named[name]) if name in named else None
            if value is not None:
                written = header.written[header.names.index(name)]
                unit = written[len(name) :] + " " + "".join(c for c in named[name] if c.isalpha() or c in "%µ")
                found[column.field] = value * scale(unit, column.usual)
                break
    return found | form.extra(named)


def _named(named: Mapping[str, str], names: Sequence[str]) -> str:
    return next((named[name] for name in names if named.get(name)), "")


def _empty(header: _Header, form: Form, blank: int, damaged: int) -> str:
    wanted = next(column for column in form.columns if column.field == "watts").names
    if not any(name in header.names for name in wanted):
        return f"has no column of power: record {wanted[0]}."
    if damaged > blank:
        return (
            f"has no row with as many fields as its header ({damaged:,} have others): record it with --format=csv, and "
            "with decimal points or semicolons where it was edited."
        )
    if blank:
        return f"has no row with a number of power and a device's index ({blank:,} rows say N/A or another)."
    return "ends after its header: it holds no row."


def _notes(damaged: int, blank: int, kept: int) -> tuple[str, ...]:
    notes = []
    if damaged:
        notes.append(f"{damaged:,} of {damaged + kept + blank:,} rows are cut off or damaged and are left out.")
    if blank:
        notes.append(f"{blank:,} rows without any number are left out.")
    return tuple(notes)
