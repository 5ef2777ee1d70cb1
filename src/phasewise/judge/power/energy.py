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
        """Joules from ``begin`` to ``end``, interpolated; None outside its readings, over a reset, or when it stood."""
        if len(self.time) < 2 or begin < self.time[0] or end > self.time[-1]:
            return None
        if any(since < end and until > begin for since, until in self.resets):
            return None
        low, high = np.interp([begin, end], self.time, self.joules)
        return float(high - low) if high > low else None


def counter(series: Series) -> Counter | None:
    """The energy counter of a series; None when it has none.

    A fall is a wrap where the device says at how many joules its counter starts again and the power that this implies
    can be; every other fall is a reset.
    """
    kept = np.isfinite(series.joules)
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
    """Trapezoid of ``drawn`` (W) from ``begin`` to ``end``, its ends interpolated, J; None outside the readings."""
    if len(time) < 2 or begin < time[0] or end > time[-1] or end <= begin:
        return None
    inside = (time > begin) & (time < end)
    at = np.concatenate(([begin], time[inside], [end]))
    return float(np.trapezoid(np.interp(at, time, drawn), at))
