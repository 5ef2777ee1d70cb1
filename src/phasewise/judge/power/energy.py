"""Energy of a window: by the counter, and by the trapezoid over the readings."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from phasewise.observe.telemetry.series import Floats, Series

_SPIKE, _FLOOR_W = 10.0, 1000.0
"""A counter that fell may have wrapped when that asks for no more than this many times the highest power that it showed
elsewhere, or this many watts; else it was reset."""


class Counter(NamedTuple):
    """An energy counter made to rise only.

    Attributes:
        time: of its readings.
        joules: since the first of them; what a reset hides counts as nothing.
        wraps: how often it started again at its end.
        resets: times between which it was set back, so that what it counted there is unknown.
    """

    time: Floats
    joules: Floats
    wraps: int
    resets: tuple[tuple[float, float], ...]

    def between(self, begin: float, end: float) -> float | None:
        """Joules from ``begin`` to ``end``; None over a reset, or with fewer than two new values between them.

        Only values inside count, and stand for the whole: what lies at the edges may be another phase's.
        """
        first, last = _inside(self.time, begin, end)
        if last - first < 1 or any(since < end and until > begin for since, until in self.resets):
            return None
        joules, seconds = self.joules[last] - self.joules[first], self.time[last] - self.time[first]
        return float(joules / seconds) * (end - begin) if joules > 0 else None


def _inside(time: Floats, begin: float, end: float) -> tuple[int, int]:
    """The first and the last reading from ``begin`` to ``end``; the last is before the first when there is none."""
    return int(np.searchsorted(time, begin, side="left")), int(np.searchsorted(time, end, side="right")) - 1


def counter(series: Series) -> Counter | None:
    """The energy counter of a series, at the readings that brought a new value; None when it has none, or stands.

    A fall is a wrap where the device says at how many joules its counter starts again and the power that this implies
    can be; every other fall is a reset.
    """
    kept = np.isfinite(series.joules)
    kept[kept] = np.append(True, np.diff(series.joules[kept]) != 0)[: int(kept.sum())]
    if kept.sum() < 2:
        return None
    time, raw = series.time[kept], series.joules[kept]
    steps, lengths = np.diff(raw), np.diff(time)
    fell = steps < 0
    wrapped = np.zeros(len(steps), dtype=bool)
    wraps_at = series.device.wraps_at
    if fell.any() and wraps_at is not None:
        highest = max(float(np.max(steps[~fell] / lengths[~fell], initial=0.0)) * _SPIKE, _FLOOR_W)
        wrapped = fell & ((steps + wraps_at) / lengths <= highest) & (steps + wraps_at >= 0)
        steps = np.where(wrapped, steps + wraps_at, steps)
    reset = fell & ~wrapped
    steps = np.where(reset, 0.0, steps)
    resets = tuple((float(time[i]), float(time[i + 1])) for i in np.flatnonzero(reset))
    return Counter(time, np.concatenate(([0.0], np.cumsum(steps))), int(wrapped.sum()), resets)


def watts(series: Series, counted: Counter | None) -> Series:
    """``series`` with watts: its own, else those that its counter's steps make, at their middles."""
    if series.says("watts") or counted is None:
        return _only(series, np.isfinite(series.watts))
    middle = (counted.time[1:] + counted.time[:-1]) / 2
    drawn = np.diff(counted.joules) / np.diff(counted.time)
    for since, until in counted.resets:
        drawn[(middle > since) & (middle < until)] = np.nan
    kept = np.isfinite(drawn)
    columns = {
        name: np.interp(middle, series.time, getattr(series, name))[kept]
        for name in series._fields[2:]
        if name != "watts"
    }
    return series._replace(time=middle[kept], watts=drawn[kept], **columns)


def _only(series: Series, kept: np.ndarray) -> Series:
    return series._replace(time=series.time[kept], **{name: getattr(series, name)[kept] for name in series._fields[2:]})


def integral(time: Floats, drawn: Floats, begin: float, end: float) -> float | None:
    """Joules from ``begin`` to ``end``: the trapezoid of ``drawn`` (W) over the readings inside, for the whole.

    None with fewer than two readings inside.
    """
    first, last = _inside(time, begin, end)
    if last - first < 1:
        return None
    at = time[first : last + 1]
    return float(np.trapezoid(drawn[first : last + 1], at) / (at[-1] - at[0])) * (end - begin)
