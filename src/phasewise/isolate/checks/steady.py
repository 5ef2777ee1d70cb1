"""Was the machine the same from beginning to end, and was it ours alone?"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from phasewise import fitting
from phasewise.isolate.checks.evidence import Evidence, many
from phasewise.record.observation import Check, CheckStatus
from phasewise.units import show

TAKEN, TAKEN_VOIDS = 0.10, 0.30
"""Part of the cores' time that other programs may take, and beyond which the figures are not the engine's."""

LEAST_S = 1.0
"""Measuring for less than this is too short to tell: the system counts CPU time in steps of 10 ms."""

UNCOUNTED = 0.5
"""When the system counts less than this part of what our processes used, its counters do not show what runs."""

LEAST_TREND = 4
"""Degrees of freedom below which no trend is sought."""

DRIFT = 0.02
"""Change over the run that is told."""

SURE = 0.999
"""Confidence of the interval whose nearer end must exceed DRIFT."""

VAGUE = 0.10
"""Half width of that interval from which on nothing is said about drift: requests scatter too much."""


def quiet(evidence: Evidence) -> list[Check]:
    """Did other programs leave the cores to the engine? Told only of an engine that we started, here."""
    status, voids, text = _quiet(evidence)
    return [Check(name="quiet", phase="run", status=status, detail=text, voids=voids)]


def _quiet(evidence: Evidence) -> tuple[CheckStatus, bool, str]:
    if not evidence.settings:
        return "not_checked", False, "phasewise did not start this engine, so its CPU time cannot be told from others'"
    if len(evidence.loads) < 2 or evidence.loads[-1].at - evidence.loads[0].at < LEAST_S:
        return "not_checked", False, "it was measured for too short a time to tell"
    first, last = evidence.loads[0], evidence.loads[-1]
    busy, own, span = last.busy - first.busy, last.own - first.own, last.at - first.at
    if busy < UNCOUNTED * own:
        return "not_checked", False, "the system's counters do not show what runs on this machine"
    others, threads = max(0.0, busy - own) / span, int(evidence.settings.get("threads", last.cores))
    # What others use beyond the cores that the engine leaves free is taken from the engine.
    taken = max(0.0, threads + others - last.cores) / threads
    where = f"of {last.cores} cores" if last.cores > 1 else "of the one core"
    text = f"other programs took {others / last.cores:.0%} of the time {where} over {show(span, 's')}"
    if taken <= TAKEN:
        return "passed", False, text
    text += f", {taken:.0%} of what the engine's {many(threads, 'thread')} could have had"
    fewer = "" if threads == 1 else ", or give the engine fewer threads: --threads 1"
    return "failed", taken > TAKEN_VOIDS, f"{text}: stop other programs{fewer}"


def clock(evidence: Evidence) -> list[Check]:
    """Did the same request take the same time from beginning to end?

    Within each shape the time relative to its mean is regressed on when it was sent, all shapes sharing one slope and
    each weighing by its own scatter.
    """
    groups = evidence.repeated()
    if sum(len(group) - 1 for group in groups) <= LEAST_TREND:
        text = "too few requests were repeated to tell a trend"
        return [Check(name="clock", phase="run", status="not_checked", detail=text)]
    member = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
    times = np.array([sample.repeatable for group in groups for sample in group])
    at = np.array([sample.answer.sent_at for group in groups for sample in group])
    slope, error = _trend(times, at, member)
    span = evidence.samples[-1].answer.ended_at - evidence.samples[0].answer.sent_at
    change, half = slope * span, error * span
    if half > VAGUE:
        text = f"whether times drifted could not be told: requests of one shape scatter too much over {show(span, 's')}"
        return [Check(name="clock", phase="run", status="not_checked", detail=text)]
    text = f"times {'rose' if change > 0 else 'fell'} by {abs(change):.1%} (±{half:.1%}) over {show(span, 's')}"
    if abs(change) - half > DRIFT:
        text += f", {abs(slope) * 60:.1%} per minute"
        return [Check(name="clock", phase="run", status="failed", detail=text)]
    return [Check(name="clock", phase="run", status="passed", detail=text)]


def _trend(times: fitting.Array, at: fitting.Array, member: NDArray[np.intp]) -> tuple[float, float]:
    """Relative change of ``times`` per second and half the width of its interval.

    Stragglers and scatter are judged with the trend of the round before taken out, or they would hide in it.
    """
    slope = error = 0.0
    for _ in range(3):
        level = times / np.maximum(0.1, 1 + slope * (at - _by_group(at, member)))
        kept, scatter = fitting.without_outliers(level, member)
        group = member[kept]
        usual = _by_group(level[kept], group)
        weight = (usual / scatter.at(usual)) ** 2
        x = at[kept] - _by_group(at[kept], group)
        y = times[kept] / usual - _by_group(times[kept] / usual, group)
        slope = float((weight * x * y).sum() / (weight * x * x).sum())
        degrees = max(1, len(group) - len(set(group.tolist())) - 1)
        error = math.sqrt(float((weight * (y - slope * x) ** 2).sum() / degrees / (weight * x * x).sum()))
    return slope, fitting.student(SURE, degrees) * error


def _by_group(values: fitting.Array, member: NDArray[np.intp]) -> fitting.Array:
    """The mean of each value's group."""
    means: fitting.Array = np.bincount(member, weights=values) / np.maximum(1, np.bincount(member))
    return means[member]
