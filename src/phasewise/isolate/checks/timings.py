"""The server's own times against ours, and how evenly tokens came."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence

from phasewise.isolate.checks.evidence import Evidence, many
from phasewise.isolate.sample import Sample
from phasewise.record.observation import Check
from phasewise.units import show

COVERED = 0.7
"""Least part of the growth of our TTFT over length that the server's own must show."""

BEYOND = 0.03
BEYOND_S = 1e-3
"""A time of the server's own that is longer than ours by this part and this much is not of the same request."""

AGREES = 0.03
"""Difference between its time per token and ours that is told."""

PAUSE, PAUSE_S = 3.0, 5e-3
"""A gap longer than this many typical ones and this much more, beyond five usual wake-ups, is a pause."""

PAUSED = 0.10
LEAST_PAUSES = 3
"""Part of the decode time, and pauses in all, that are told."""


def reported(evidence: Evidence) -> list[Check]:
    """Do the times that the server reports of itself agree with what was seen?"""
    found = [_prefill(evidence), _decode(evidence)]
    told = [check for check in found if check]
    if told or not evidence.samples:
        return told
    text = "the server reports no times of its own"
    return [Check(name="reported", phase="run", status="not_checked", detail=text)]


def _prefill(evidence: Evidence) -> Check | None:
    points = []
    for group in evidence.prefill.values():
        theirs = [time for time in map(own_ttft, group) if time is not None]
        if theirs:
            ours = statistics.median(s.answer.ttft for s in group)
            points.append((statistics.median(s.prompt_tokens for s in group), ours, statistics.median(theirs)))
    if len(points) < 2:
        return None
    (_, short, their_short), (tokens, long, their_long) = min(points), max(points)
    text = (
        f"at {many(tokens, 'token')} the server says {show(their_long, 's')} until the first, we saw {show(long, 's')}"
    )
    if their_long > long * (1 + BEYOND) + BEYOND_S:
        return _told("prefill", f"{text}: its time is not that of this request")
    if their_long - their_short < COVERED * (long - short) and long - their_long > BEYOND_S:
        rate = f"{tokens / their_long:,.0f} tokens/s"
        return _told("prefill", f"{text}: its time covers a part of the prompt only, and a rate by it, {rate}, is none")
    return Check(name="reported", phase="prefill", status="passed", detail=text)


def own_ttft(sample: Sample) -> float | None:
    """Seconds until the first token by the server's own words: vLLM's wait and pass, or llama.cpp's pass."""
    said = sample.answer.reported
    if "time_to_first_token_ms" in said:
        return (said["time_to_first_token_ms"] + said.get("queue_time_ms", 0.0)) * 1e-3
    return said["prompt_ms"] * 1e-3 if "prompt_ms" in said else None


def _own_tpot(sample: Sample) -> float | None:
    said = sample.answer.reported
    if "mean_itl_ms" in said:
        return said["mean_itl_ms"] * 1e-3
    steps = said.get("predicted_n", 0.0) - 1
    return said["predicted_ms"] * 1e-3 / steps if steps > 0 and "predicted_ms" in said else None


def _decode(evidence: Evidence) -> Check | None:
    pairs = [
        (sample.tpot, own)
        for group in evidence.decode.values()
        for sample in group
        if sample.tpot is not None and (own := _own_tpot(sample)) is not None and own > 0
    ]
    if not pairs:
        return None
    ratio = statistics.median(ours / theirs for ours, theirs in pairs)
    ours, theirs = (statistics.median(times) for times in zip(*pairs, strict=True))
    text = f"the server says {show(theirs, 's')} per token, we saw {show(ours, 's')}, {ratio - 1:+.1%}"
    if abs(ratio - 1) <= AGREES:
        return Check(name="reported", phase="decode", status="passed", detail=text)
    why = "what its engine makes is held up on the way here" if ratio > 1 else "it counts other tokens or other steps"
    return _told("decode", f"{text}: {why}")


def _told(phase: str, text: str) -> Check:
    return Check(name="reported", phase="prefill" if phase == "prefill" else "decode", status="failed", detail=text)


def steady(evidence: Evidence) -> list[Check]:
    """Did tokens come evenly, or did the engine pause within answers?"""
    samples = [s for s in evidence.sent("decode") if len(s.carrying) > 3]
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
    return [Check(name="steady", phase="decode", status="failed", detail=f"{text}preemption, or an engine that pauses")]


def _gaps(sample: Sample) -> Sequence[float]:
    """Times between the reads that brought tokens."""
    times = sorted({chunk.at for chunk in sample.carrying})
    return [later - earlier for earlier, later in itertools.pairwise(times)] or [0.0]
