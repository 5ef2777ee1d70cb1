"""Prefill alone: prompts of several lengths, one token asked for, one request at a time."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence

from phasewise import fitting
from phasewise.errors import Refused
from phasewise.isolate import plan
from phasewise.isolate.sample import Sample, Shape
from phasewise.isolate.session import Session
from phasewise.record.observation import PrefillFit, PrefillObservation, PrefillPoint
from phasewise.record.quantity import Quantity, measured
from phasewise.units import Unit

RESOLUTION_S = 30e-6
"""Error, as a standard deviation, that all samples of one length may share: repeats do not shrink it below this."""

TOO_LONG = (400, 413, 422)
"""HTTP statuses by which servers refuse a prompt that is too long."""


def measure(
    session: Session, *, budget_s: float, max_prompt: int | None = None, lengths: Sequence[int] | None = None
) -> str:
    """Sample TTFT over prompt lengths for at most ``budget_s``; returns why it stopped."""
    until = session.left() - budget_s

    def left() -> float:
        return session.left() - max(0.0, until)

    longest = plan.longest_prompt(session.engine.target.max_context, max_prompt, 1)
    rungs = sorted(set(lengths)) if lengths else plan.ladder(longest)
    climbed, limit = _climb(session, rungs, budget_s=budget_s, chosen=bool(lengths))
    order = plan.telling(climbed)[: len(climbed) if lengths else plan.MOST_LENGTHS]
    for number in range(1, plan.MOST_ROUNDS):
        if not _round(session, order, number, left):
            return f"the time budget was spent{limit}"
        if number + 1 >= plan.LEAST_ROUNDS and _tight(observe(session.samples)):
            return f"the intervals were tight{limit}"
    return f"every length was sampled {plan.MOST_ROUNDS} times{limit}"


def kept(samples: Sequence[Sample]) -> dict[Shape, list[Sample]]:
    """Prefill samples that count, by shape in ascending order: warm, and with a token."""
    found: dict[Shape, list[Sample]] = {}
    for sample in samples:
        if sample.phase == "prefill" and not sample.warmup:
            found.setdefault(sample.shape, []).append(sample)
    return {
        shape: found[shape][plan.first_kept([s.answer.ttft for s in found[shape]], discard=1) :]
        for shape in sorted(found)
    }


def observe(samples: Sequence[Sample]) -> PrefillObservation | None:
    """What the samples say; None when none of them counts."""
    lengths = [(_tokens(group), group) for group in kept(samples).values() if group]
    if not lengths:
        return None
    points = []
    for tokens, group in lengths:
        times = [sample.answer.ttft for sample in group]
        ttft = quantity(fitting.median_interval(times), "s", f"median of {len(times)} requests with max_tokens=1")
        points.append(PrefillPoint(tokens=tokens, ttft=ttft, best=min(times), samples=len(times)))
    return PrefillObservation(points=tuple(points), fit=_fit(lengths, samples))


def quantity(interval: fitting.Interval, unit: Unit, source: str) -> Quantity:
    """``interval`` as a measured quantity; without ends when the data set no bound."""
    bounded = math.isfinite(interval.low) and math.isfinite(interval.high)
    low, high = (interval.low, interval.high) if bounded else (None, None)
    return measured(interval.value, unit, source, low, high)


def _tokens(group: Sequence[Sample]) -> int:
    return round(statistics.median(sample.prompt_tokens for sample in group))
