"""Did another client, our own client or the clock of the machine disturb the figures?"""

from __future__ import annotations

import math
import statistics

import numpy as np
from numpy.typing import NDArray

from phasewise import fitting
from phasewise.isolate.checks.evidence import Evidence
from phasewise.isolate.session import Snapshot
from phasewise.record.observation import Check
from phasewise.units import show

FOREIGN = 0.02
FOREIGN_TOKENS = 64
"""Tokens in the server's counters, beyond ours, that are not told (probes, rounding): this part of ours, this many."""

BUSY = 0.2
"""Part of the looks at an idle server that may find somebody else: counters may trail our own requests."""

SLOWED = 0.25
SLOWED_S = 2e-3
"""A sample this much above the fastest of its shape, and five usual wake-ups, was held up by something."""

HELD_UP = 0.10
"""Part of the samples that may be held up."""

LEAST_SAMPLES = 8

LEAST_TREND = 4
"""Degrees of freedom below which no trend is sought."""

MOST_CPU = 0.8
"""CPU share of the client while it reads a stream, above which it may be what limits."""

MOST_LAG_S = 1e-3
"""Typical delay of a wake-up above which the client sees tokens late."""

DRIFT = 0.02
"""Change over the run that is told."""

SURE = 0.999
"""Confidence of the interval whose nearer end must exceed DRIFT."""


def alone(evidence: Evidence) -> list[Check]:
    """Was nobody else on the server? By its counters; without them by how samples of one shape are spread."""
    counted = _by_counters(evidence.snapshots)
    return [counted or _by_spread(evidence)]


def _by_counters(snapshots: tuple[Snapshot, ...]) -> Check | None:
    looks = [(s.activity.running or 0) + (s.activity.waiting or 0) for s in snapshots if s.activity.running is not None]
    totals = [s for s in snapshots if s.activity.prompt_tokens is not None and s.activity.output_tokens is not None]
    seen, foreign = [], False
    if looks:
        busy = sum(look > 0 for look in looks)
        foreign = busy > BUSY * len(looks)
        seen.append(f"{busy} of {len(looks)} looks at the server while we were idle found requests")
    if len(totals) > 1:
        first, last = totals[0], totals[-1]
        theirs = (last.activity.prompt_tokens or 0) + (last.activity.output_tokens or 0)
        theirs -= (first.activity.prompt_tokens or 0) + (first.activity.output_tokens or 0)
        ours = last.prompt_tokens + last.output_tokens - first.prompt_tokens - first.output_tokens
        foreign = foreign or theirs - ours > max(FOREIGN_TOKENS, FOREIGN * ours)
        seen.append(f"its counters rose by {theirs:,.0f} tokens, ours were {ours:,}")
    if not seen:
        return None
    return Check(
        name="alone", phase="run", status="failed" if foreign else "passed", detail="; ".join(seen), voids=foreign
    )


def _by_spread(evidence: Evidence) -> Check:
    held_up = total = 0
    lag = statistics.median(sample.lag_s for sample in evidence.samples)
    for group in evidence.repeated():
        times = [sample.repeatable for sample in group]
        most = min(times) * (1 + SLOWED) + SLOWED_S + 5 * lag
        total += len(times)
        held_up += sum(time > most for time in times)
    if total < LEAST_SAMPLES:
        text = "the server publishes no counters, and there were too few samples to tell from their spread"
        return Check(name="alone", phase="run", status="not_checked", detail=text)
    text = f"the server publishes no counters; {held_up} of {total} samples took {SLOWED:.0%} longer than their like"
    if held_up > HELD_UP * total:
        text += ": another client, or other work on the machine"
        return Check(name="alone", phase="run", status="failed", detail=text)
    return Check(name="alone", phase="run", status="not_checked", detail=f"{text}, as few as jitter makes")


def client(evidence: Evidence) -> list[Check]:
    """Could this process keep up?"""
    lags = sorted(sample.lag_s for sample in evidence.samples)
    lag, worst = statistics.median(lags), lags[math.ceil(0.9 * len(lags)) - 1]
    text = f"a sleep of a millisecond overran by {show(lag, 's')}, at worst (p90) by {show(worst, 's')}"
    failed = lag > MOST_LAG_S
    reading = evidence.sent("decode")
    if reading:
        share = sum(s.cpu_s for s in reading) / max(1e-9, sum(s.wall_s for s in reading))
        text = f"the client used {share:.0%} of a core while it read answers; {text}"
        failed = failed or share > MOST_CPU
    return [Check(name="client", phase="run", status="failed" if failed else "passed", detail=text)]


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
    text = f"times changed by {change:+.1%} (±{half:.1%}) over {show(span, 's')}, {slope * 60:+.1%} per minute"
    drifts = abs(change) - half > DRIFT
    return [Check(name="clock", phase="run", status="failed" if drifts else "passed", detail=text)]


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
