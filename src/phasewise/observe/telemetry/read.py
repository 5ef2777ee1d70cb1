"""Open a telemetry file, find its form by content, and place it on Unix time."""

from __future__ import annotations

from datetime import tzinfo
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from phasewise.errors import InputError
from phasewise.observe.telemetry import text
from phasewise.observe.telemetry.readers import READERS
from phasewise.observe.telemetry.rows import Clock, Unusable
from phasewise.observe.telemetry.series import Series, of_rows
from phasewise.observe.telemetry.times import unix

_HEAD = 200
"""Lines in which a form must show itself."""


class Recorded(NamedTuple):
    """A file: its form, its devices, whose clock their times are by, and sentences on what was left out."""

    path: Path
    form: str
    series: tuple[Series, ...]
    clock: Clock
    notes: tuple[str, ...]


class Placing(msgspec.Struct, frozen=True, kw_only=True):
    """What the user says of a file's times.

    Attributes:
        zone: of a calendar without one; None for this machine's.
        offset_s: seconds to add to every time: what the clock of the recording machine was behind.
        start: Unix time of the first row, for a file with no times of its own; of its zero, for one with its own.
        every_s: seconds from one row to the next, for a file with no times.
    """

    zone: tzinfo | None = None
    offset_s: float = 0.0
    start: float | None = None
    every_s: float | None = None


def recorded(path: Path) -> Recorded:
    """Read the file at ``path``.

    Raises:
        InputError: it cannot be read, is of no known form, or holds no power.
    """
    lines = text.lines(path)
    reader = next((one for one in READERS if one.sniff(lines[:_HEAD])), None)
    if reader is None:
        forms = ", ".join(one.FORM for one in READERS)
        raise InputError(f"{path} is no telemetry that phasewise reads: {forms} (with its header).")
    try:
        found = reader.read(lines)
    except Unusable as why:
        raise InputError(f"{path} ({reader.FORM}) {why}") from None
    return Recorded(path, reader.FORM, of_rows(found, reader.FORM), found.clock, found.notes)


def placed(found: Recorded, placing: Placing, day_of: float | None = None) -> tuple[Series, ...]:
    """The file's devices on Unix time; ``day_of`` is a time on whose day a time of day is.

    Raises:
        InputError: its clock cannot be placed by what was said.
    """
    out = []
    for one in found.series:
        try:
            time = _time(one, found.clock, placing, day_of)
        except Unusable as why:
            raise InputError(f"{found.path} ({found.form}) {why}") from None
        out.append(one.at(time + placing.offset_s))
    return tuple(out)


def own(found: Recorded, placing: Placing) -> tuple[Series, ...]:
    """The file's devices by its own times, where nothing is joined to it; rows without times by their number."""
    return tuple(one.at(_own(one, found.clock, placing)) for one in found.series)


def _own(one: Series, clock: Clock, placing: Placing) -> np.ndarray:
    """Times whose differences are right: over midnight, and over an hour that came twice."""
    if clock == "none":
        return one.time * (placing.every_s or 1.0)
    if clock in ("local", "day"):
        return unix(one.time, clock, placing.zone, placing.start if placing.start is not None else 0.0)
    return one.time


def _time(one: Series, clock: Clock, placing: Placing, day_of: float | None) -> np.ndarray:
    if clock == "none":
        if placing.start is None or placing.every_s is None:
            raise Unusable(
                "holds no times: say --start (of its first row, with its zone) and --every (from row to row)."
            )
        return placing.start + placing.every_s * one.time
    if clock == "own":
        if placing.start is None:
            raise Unusable("counts seconds from a zero of its own: say with --start when that was.")
        return placing.start + one.time
    return unix(one.time, clock, placing.zone, placing.start if placing.start is not None else day_of)
