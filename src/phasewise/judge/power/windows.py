"""The windows of a phase: its requests (or steps), neighbours merged, and of those the ones that can be measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from phasewise.observe.telemetry.series import Floats, Series
from phasewise.record.power import PowerPhase

LEAST_S = 0.2
"""NVML's readings agree with the energy counter within 2% from here on (Ma et al., arXiv 2605.11999)."""

READINGS = 3
"""Least readings in a window."""

JOINED_S = 0.1
"""Repeats with no more than this between them are one window: a prefill is often shorter than a reading is apart."""

FULL_S = 1.0
"""A long row of repeats becomes windows of this length and more."""

_GAP = 5.0
"""A window is not covered where readings lie further apart than this many times the usual."""


Interval = tuple[float, float]


class Span(NamedTuple):
    """One request's (or step's) time in a phase, or that of several at once.

    Attributes:
        tokens: its tokens; None when they are unknown.
        requests: how many there are.
        busy_s: how long of it the phase ran; None for throughout.
        cell: of a batch that was held: how many requests, and tokens of the prompt of each; None for anything else.
    """

    phase: PowerPhase
    begin: float
    end: float
    tokens: int | None
    requests: int = 1
    busy_s: float | None = None
    cell: tuple[int, int] | None = None


class Window(NamedTuple):
    """Spans of one phase that follow each other: their times, how long one of them ran, how many, and their tokens."""

    begin: float
    end: float
    busy_s: float
    spans: int
    tokens: int | None


class Chosen(NamedTuple):
    """The windows to measure, and a sentence on the others; empty when there are none."""

    windows: tuple[Window, ...]
    left_out: str


def merged(spans: Sequence[Span], least: float = 0.0, begins: Sequence[float] = ()) -> tuple[Window, ...]:
    """The spans of one phase as windows, in order. Spans may overlap: several requests at once are one window.

    ``begins`` is when anything at all began: spans between which something did are not merged, as two answers with a
    prefill between them are not. A long row of repeats becomes several windows of ``FULL_S`` (or ``least``) and more:
    their scatter says how sure the mean is.
    """
    full, starts = max(FULL_S, least), np.sort(np.asarray(begins, dtype=np.float64))
    rows: list[list[Window]] = []
    for span in sorted(spans, key=lambda one: one.begin):
        busy_s = span.end - span.begin if span.busy_s is None else span.busy_s
        one = Window(span.begin, span.end, busy_s, span.requests, span.tokens)
        last = rows[-1][-1] if rows else None
        if last is None or one.begin - last.end > JOINED_S or _any_in(starts, last.end, one.begin):
            rows.append([one])
        elif one.begin >= last.end and last.end - last.begin >= full:
            rows[-1].append(one)
        else:
            rows[-1][-1] = _with(last, one)
    for row in rows:
        if len(row) > 1 and row[-1].end - row[-1].begin < full / 2:  # what is left over is no window of its own
            row[-2:] = [_with(row[-2], row[-1])]
    return tuple(window for row in rows for window in row)


def _with(one: Window, more: Window) -> Window:
    """``one`` and ``more``, which begins in it or after it, as one window."""
    longer = more.busy_s if more.begin >= one.end else max(0.0, more.end - one.end)
    tokens = None if one.tokens is None or more.tokens is None else one.tokens + more.tokens
    return Window(one.begin, max(one.end, more.end), one.busy_s + longer, one.spans + more.spans, tokens)


def union(intervals: Sequence[Interval]) -> list[Interval]:
    """The time in any of them, in order."""
    found: list[Interval] = []
    for begin, end in sorted(one for one in intervals if one[1] > one[0]):
        if found and begin <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((begin, end))
    return found


def _any_in(starts: Floats, since: float, until: float) -> bool:
    low, high = np.searchsorted(starts, [since, until])
    return bool(high > low)


def least(fresh_s: float, averages_s: float = 0.0) -> float:
    """The shortest window that can be measured, seconds, where values are new every ``fresh_s``.

    A mean over ``averages_s`` is of the window alone only from that long after its begin on.
    """
    return max(LEAST_S, averages_s + READINGS * fresh_s)


def chosen(windows: Sequence[Window], least: float, measured: Callable[[Window], bool]) -> Chosen:
    """Those that are at least ``least`` long and that are ``measured`` throughout."""
    long = [window for window in windows if window.end - window.begin >= least]
    kept = [window for window in long if measured(window)]
    reasons = []
    if len(long) < len(windows):
        reasons.append(f"{len(windows) - len(long):,} shorter than {least:.3g} s")
    if len(kept) < len(long):
        reasons.append(f"{len(long) - len(kept):,} without readings throughout")
    left = f"{len(windows) - len(kept):,} of {len(windows):,} windows are not judged: {' and '.join(reasons)}."
    return Chosen(tuple(kept), left if reasons else "")


def covers(series: Series, begin: float, end: float) -> bool:
    """Whether there are readings from ``begin`` to ``end`` without a hole."""
    time = series.time
    if len(time) < 2 or begin < time[0] or end > time[-1]:
        return False
    first, last = np.searchsorted(time, [begin, end])
    around = time[max(0, first - 1) : last + 1]
    if last - first < READINGS:
        return False
    return bool(np.max(np.diff(around)) <= _GAP * series.every_s)


def inside(series: Series, windows: Sequence[Window], after: float = 0.0) -> Series:
    """The readings that lie in ``windows``, from ``after`` seconds on in each."""
    kept = np.zeros(len(series.time), dtype=bool)
    for window in windows:
        kept |= (series.time >= window.begin + after) & (series.time <= window.end)
    return series._replace(time=series.time[kept], **{name: getattr(series, name)[kept] for name in series._fields[2:]})
