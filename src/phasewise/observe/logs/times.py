"""Times as logs write them: ISO dates, or numbers; a column at once, or one cell with care."""

from __future__ import annotations

import math
from datetime import UTC, datetime

import numpy as np
import numpy.typing as npt

from phasewise.observe.logs.rows import Clock, Real

LONGEST_S = 1e11
"""A number of seconds above this (the year 5138) is some other unit."""

_DIGITS = [0, 1, 2, 3, 5, 6, 8, 9, 11, 12, 14, 15, 17, 18]
_MARKS = {4: b"-", 7: b"-", 13: b":", 16: b":"}
_SECOND = 19


def column(characters: npt.NDArray[np.uint8], clock: Clock) -> Real | None:
    """A column of times, one row of ASCII ``characters`` each with zeros behind; None when it needs care.

    Never says other than ``cell`` would, so zones and short forms of dates are left to that.
    """
    text = np.ascontiguousarray(characters).view(f"S{characters.shape[1]}")[:, 0]
    try:
        if clock == "date":
            micro = text.astype("datetime64[us]").astype(np.int64) if _plain_dates(characters) else None
            return None if micro is None else micro / 1e6
        seconds: Real = text.astype(np.float64)
    except ValueError:
        return None
    return seconds if bool(np.all(np.abs(seconds) <= LONGEST_S)) else None


def _plain_dates(characters: npt.NDArray[np.uint8]) -> bool:
    """Whether each is ``2023-11-16 18:17:03``, with a fraction or without."""
    width = characters.shape[1]
    if width < _SECOND or not _digits(characters[:, _DIGITS]) or bool((characters[:, 0] == ord("0")).any()):
        return False
    if any(bool((characters[:, at] != ord(mark)).any()) for at, mark in _MARKS.items()):
        return False
    between = characters[:, 10]
    if not bool(((between == ord(" ")) | (between == ord("T"))).all()):
        return False
    if width == _SECOND:
        return True
    point, rest = characters[:, _SECOND], characters[:, _SECOND + 1 :]
    has = point == ord(".")
    if not bool((has | (point == 0)).all()) or rest.shape[1] == 0:
        return False
    return _digits(rest[:, 0][has]) and _digits(rest[rest != 0])


def _digits(characters: npt.NDArray[np.uint8]) -> bool:
    return bool(((characters >= ord("0")) & (characters <= ord("9"))).all())


def kind(text: str) -> Clock:
    """Whether ``text`` is a number or should be a date."""
    try:
        float(text)
    except ValueError:
        return "date"
    return "seconds"


def cell(text: str, clock: Clock) -> float:
    """Seconds of one time; a date without a zone counts as UTC.

    Raises:
        ValueError: what is wrong with it, and the cure.
    """
    if clock == "date":
        return _date(text)
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if math.isnan(seconds):
        raise ValueError("which is no number of seconds: write all times in one form")
    if abs(seconds) > LONGEST_S:
        raise ValueError("too large for seconds: call the column time_ms if it is milliseconds")
    return seconds


def _date(text: str) -> float:
    try:
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise ValueError("which is no time: write 2023-11-16 18:17:03.98, or seconds") from None
