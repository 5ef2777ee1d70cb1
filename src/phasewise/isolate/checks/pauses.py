"""How evenly tokens came."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence

from phasewise.isolate.checks.evidence import Evidence, many
from phasewise.isolate.sample import Sample
from phasewise.record.observation import Check
from phasewise.units import show

PAUSE, PAUSE_S = 3.0, 5e-3
"""A gap longer than this many typical ones and this much more, beyond five usual wake-ups, is a pause."""

PAUSED = 0.10
LEAST_PAUSES = 3
"""Part of the decode time, and pauses in all, that are told."""


def evenly(evidence: Evidence) -> list[Check]:
    """Did tokens come evenly, or did the engine pause within answers?"""
    samples = [s for s in evidence.sent("decode") if len(s.carrying) > 3 and not s.at_once]
    if not samples:
        return []
    lag = statistics.median(sample.lag_s for sample in evidence.samples)
    gaps = [_gaps(sample) for sample in samples]
    usual = statistics.median(itertools.chain.from_iterable(gaps))
    pauses = [gap for each in gaps for gap in each if gap > PAUSE * usual + PAUSE_S + 5 * lag]
    lost, whole = sum(pauses) - usual * len(pauses), sum(map(sum, gaps))
    count = sum(map(len, gaps))
    if len(pauses) < LEAST_PAUSES or lost <= PAUSED * whole:
        text = f"{len(pauses)} of {many(count, 'gap')} between chunks were pauses; typically it is {show(usual, 's')}"
        return [Check(name="steady", phase="decode", status="passed", detail=text)]
    text = f"{len(pauses)} of {many(count, 'gap')} between chunks took {show(statistics.median(pauses), 's')} where "
    text += f"{show(usual, 's')} is typical, {lost / whole:.0%} of the time: steps that others' prompts share, "
    return [
        Check(
            name="steady",
            phase="decode",
            status="failed",
            detail=f"{text}preemption, an engine that pauses, or a busy machine",
        )
    ]


def _gaps(sample: Sample) -> Sequence[float]:
    """Times between the reads that brought tokens."""
    times = sorted({chunk.at for chunk in sample.carrying})
    return [later - earlier for earlier, later in itertools.pairwise(times)] or [0.0]
