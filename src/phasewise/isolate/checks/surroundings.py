"""Did another client, failed requests or our own client disturb the figures?"""

from __future__ import annotations

import math
import statistics

from phasewise.engines.selfwatch import Lateness, Watched, verdict
from phasewise.isolate.checks.evidence import Evidence, many
from phasewise.isolate.session import Snapshot
from phasewise.record.observation import Check

ASTRAY = 0.5
"""Counters that rose by less than this part of our own tokens tell of another server, or of a restart."""

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


def alone(evidence: Evidence) -> list[Check]:
    """Was nobody else on the server? By its counters; without them by how samples of one shape are spread."""
    counted = _by_counters(evidence.snapshots)
    return [counted or _by_spread(evidence)]


def _by_counters(snapshots: tuple[Snapshot, ...]) -> Check | None:
    looks = [(s.activity.running or 0) + (s.activity.waiting or 0) for s in snapshots if s.activity.running is not None]
    totals = [s for s in snapshots if s.activity.prompt_tokens is not None and s.activity.output_tokens is not None]
    seen, foreign, astray = [], False, False
    if looks:
        busy = sum(look > 0 for look in looks)
        foreign = busy > BUSY * len(looks)
        seen.append(f"{busy} of {many(len(looks), 'look')} at the server while we were idle found requests")
    if len(totals) > 1:
        first, last = totals[0], totals[-1]
        theirs = (last.activity.prompt_tokens or 0) + (last.activity.output_tokens or 0)
        theirs -= (first.activity.prompt_tokens or 0) + (first.activity.output_tokens or 0)
        ours = last.prompt_tokens + last.output_tokens - first.prompt_tokens - first.output_tokens
        lost = last.lost_tokens - first.lost_tokens
        foreign = foreign or theirs - ours > max(FOREIGN_TOKENS, FOREIGN * ours) + lost
        astray = theirs < ASTRAY * ours
        seen.append(f"its counters rose by {many(theirs, 'token')}, ours were {ours:,}")
    if not seen:
        return None
    if astray and not foreign:
        text = "; ".join([*seen, "they are not those of the server that answered us"])
        return Check(name="alone", phase="run", status="not_checked", detail=text)
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
    text = f"the server publishes no counters; {held_up} of {many(total, 'sample')} took {SLOWED:.0%} longer"
    text += " than the fastest of their like"
    if held_up > HELD_UP * total:
        text += ": another client, or other work on the machine"
        return Check(name="alone", phase="run", status="failed", detail=text)
    return Check(name="alone", phase="run", status="not_checked", detail=f"{text}, as few as jitter makes")


def client(evidence: Evidence) -> list[Check]:
    """Could this process keep up? How late it wakes up is seen by sleeps of a millisecond, one before each request."""
    samples, reading = evidence.samples, evidence.sent("decode")
    lags = sorted(sample.lag_s for sample in samples)
    seen = Lateness(
        wall_s=sum(s.wall_s for s in reading),
        cpu_share=sum(s.cpu_s for s in reading) / max(1e-9, sum(s.wall_s for s in reading)),
        reads=len(samples),
        stamped=False,
        lag_p50_s=statistics.median(lags),
        lag_p99_s=lags[math.ceil(0.99 * len(lags)) - 1],
        clock_moved_s=max(sample.clock_moved_s for sample in samples),
    )
    return [verdict([Watched(seen)])]


def errors(evidence: Evidence) -> list[Check]:
    """Was every request answered?"""
    failures, sent = evidence.failures, len(evidence.samples) + len(evidence.failures)
    if not failures:
        text = f"{sent} of {many(sent, 'request')} {'was' if sent == 1 else 'were'} answered"
        return [Check(name="errors", phase="run", status="passed", detail=text)]
    text = f"{len(failures)} of {many(sent, 'request')} failed and left no figures; the last: {failures[-1]}"
    return [Check(name="errors", phase="run", status="failed", detail=text)]
