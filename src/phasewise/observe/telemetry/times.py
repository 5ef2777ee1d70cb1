"""When a row was: what monitors write as time, and how a file's clock becomes Unix time."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import NamedTuple
from zoneinfo import ZoneInfo

import numpy as np

from phasewise.errors import UsageError
from phasewise.observe.telemetry.rows import Clock, Unusable
from phasewise.observe.telemetry.series import Floats

_CALENDAR = re.compile(
    r"^(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})[T ]+(\d{1,2}):(\d{2}):(\d{2})(?:[.,](\d+))?\s*(Z|UTC|GMT|[+-]\d{2}:?\d{2})?$"
)
_DAY = re.compile(r"^(\d{1,2}):(\d{2}):(\d{2})(?:[.,](\d+))?$")
_NUMBER = re.compile(r"^\d+(?:\.\d+)?$")
_OFFSET = re.compile(r"^(?:UTC|GMT)?([+-])(\d{1,2}):?(\d{2})?$", re.IGNORECASE)

_EPOCHS = ((1e17, 1e-9), (1e14, 1e-6), (1e11, 1e-3), (1e8, 1.0))
"""From this size on, a bare number is Unix time in nano-, micro-, milliseconds, seconds (1973 and later)."""

_HOUR, _DAY_S = 3600.0, 86400.0


class Moment(NamedTuple):
    """A time as it is written: seconds, by ``clock``."""

    at: float
    clock: Clock


def moment(text: str) -> Moment | None:
    """What ``text`` says when it was; None when it is no time."""
    text = text.strip().strip('"')
    if found := _CALENDAR.match(text):
        year, month, day, hour, minute, second = (int(part) for part in found.groups()[:6])
        try:
            at = datetime(year, month, day, hour, minute, min(second, 59), tzinfo=UTC).timestamp()
        except ValueError:
            return None
        at += max(0, second - 59) + _fraction(found[7])
        return Moment(at, "local") if found[8] is None else Moment(at - _seconds(found[8]), "utc")
    if found := _DAY.match(text):
        hour, minute, second = (int(part) for part in found.groups()[:3])
        return Moment(_HOUR * hour + 60 * minute + second + _fraction(found[4]), "day")
    if _NUMBER.match(text):
        value = float(text)
        factor = next((factor for least, factor in _EPOCHS if value >= least), None)
        return Moment(value, "own") if factor is None else Moment(value * factor, "utc")
    return None


def zone(text: str) -> tzinfo:
    """A zone as a person writes it: ``UTC``, ``+02:00``, ``Europe/Berlin``.

    Raises:
        UsageError: no such zone.
    """
    if text.upper() in ("UTC", "Z", "GMT"):
        return UTC
    if _OFFSET.match(text):
        seconds = _seconds(text)
        if abs(seconds) <= 14 * _HOUR:
            return timezone(timedelta(seconds=seconds))
    try:
        return ZoneInfo(text)
    except (ValueError, OSError, KeyError):
        raise UsageError(f"--zone {text[:40]!r} is no time zone: write UTC, +02:00 or Europe/Berlin.") from None


def start(text: str) -> float:
    """Unix time of ``--start``: a date and time with its zone, or Unix seconds.

    Raises:
        UsageError: something else.
    """
    found = moment(text)
    if found is None or found.clock != "utc":
        hint = "write 2026-11-30T14:30:00Z or +02:00 at its end"
        raise UsageError(f"--start {text[:40]!r} is no time with a zone: {hint}.")
    return found.at


def unix(time: Floats, clock: Clock, within: tzinfo | None, day_of: float | None) -> Floats:
    """``time`` by ``clock`` (``utc``, ``local`` or ``day``) as Unix time.

    Args:
        within: zone of the calendar; None for this machine's.
        day_of: a Unix time on whose day (in that zone) a time of day is.

    Raises:
        Unusable: a clock that has no date, and none was given.
    """
    if clock == "utc":
        return time
    if clock == "day":
        if day_of is None:
            raise Unusable("says the time of day and no date: record it with nvidia-smi dmon -o DT, or give --start.")
        turned = np.concatenate(([0.0], np.cumsum(np.diff(time) < -_DAY_S / 2))) * _DAY_S
        local = datetime.fromtimestamp(day_of, within)
        midnight = local.replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=UTC).timestamp()
        time = time + turned + midnight
        if time[0] - (day_of + _offset(day_of, within)) > _DAY_S / 2:  # it began before the midnight that the run saw
            time = time - _DAY_S
    folds = np.concatenate(([0.0], np.cumsum((np.diff(time) < -_HOUR / 2) & (np.diff(time) > -1.5 * _HOUR))))
    hours = np.floor(time / _HOUR)
    shift = np.zeros(len(time))
    for hour, fold in set(zip(hours.tolist(), folds.tolist(), strict=True)):
        shift[(hours == hour) & (folds == fold)] = _local_offset(hour * _HOUR, within, fold=int(fold > 0))
    return time - shift


def written(at: float) -> str:
    """A Unix time for a sentence: ``2026-11-30 14:30:00 UTC``."""
    try:
        return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return f"Unix time {at:g}"


def _local_offset(local: float, within: tzinfo | None, *, fold: int) -> float:
    """Seconds that the calendar's ``local`` is ahead of UTC."""
    naive = datetime.fromtimestamp(local, UTC).replace(tzinfo=None, fold=fold)
    aware = naive.replace(tzinfo=within) if within else naive.astimezone()
    found = aware.utcoffset()
    return found.total_seconds() if found else 0.0


def _offset(at: float, within: tzinfo | None) -> float:
    found = (datetime.fromtimestamp(at, within) if within else datetime.fromtimestamp(at).astimezone()).utcoffset()
    return found.total_seconds() if found else 0.0


def _seconds(text: str) -> float:
    found = _OFFSET.match(text)
    if not found:
        return 0.0
    seconds = _HOUR * int(found[2]) + 60 * int(found[3] or 0)
    return -seconds if found[1] == "-" else seconds


def _fraction(digits: str | None) -> float:
    return float(f"0.{digits}") if digits else 0.0
