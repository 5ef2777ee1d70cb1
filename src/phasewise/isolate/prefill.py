"""Prefill alone: prompts of several lengths, one token asked for, one request at a time."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Sequence

from phasewise import fitting
from phasewise.errors import Refused
from phasewise.isolate import plan
from phasewise.isolate.sample import Sample, Shape
from phasewise.isolate.session import Session
from phasewise.record.observation import PrefillFit, PrefillObservation, PrefillPoint
from phasewise.record.quantity import Quantity, measured
from phasewise.units import Unit

RESOLUTION_S = 60e-6
"""Error, as a standard deviation, that all samples of one length may share: repeats do not shrink it below this."""

WIRE_S = 0.2e-3
"""Part of every TTFT that is HTTP over loopback and two processes, not the engine: 0.1 to 0.4 ms were seen against a
server with planted times (tests/isolate), wake-ups included. A real network adds its round trip to the overhead."""

MOST_ROUNDS = 30

SURPRISE, SURPRISE_S = 2.0, 20e-3
"""A first request that takes longer than this factor of what was expected, and this, was cold."""

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
    for number in range(1, MOST_ROUNDS):
        if not _round(session, order, number, left):
            return f"the time budget was spent{limit}"
        if number >= plan.LEAST_KEPT and _tight(observe(session.samples)):
            return f"the intervals were tight{limit}"
    return f"every length was sampled {MOST_ROUNDS} times{limit}"


def kept(samples: Sequence[Sample]) -> dict[Shape, list[Sample]]:
    """Prefill samples that count, by shape in ascending order: warm, and with a token."""
    found: dict[Shape, list[Sample]] = {}
    for sample in samples:
        if sample.phase == "prefill" and not sample.warmup:
            found.setdefault(sample.shape, []).append(sample)
    return {
        shape: found[shape][plan.first_kept([s.repeatable for s in found[shape]], discard=1) :]
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


def _climb(session: Session, rungs: Sequence[int], *, budget_s: float, chosen: bool) -> tuple[list[int], str]:
    """One request at each length, upward, while three passes would fit; returns the lengths and what ended the climb.

    Lengths grow about twofold, so a pass over all of them costs about two of the longest. Lengths that the user chose
    are taken as long as the whole budget holds one.
    """
    taken: list[int] = []
    session.ask("prefill", Shape(rungs[0], 1), warmup=True)  # the first request of all may compile, load or connect
    for tokens in rungs:
        expected = session.expected_prefill(tokens)
        if session.left() <= 0 or expected > (session.left() if chosen else budget_s / (2 * plan.PASSES)):
            return taken, f"; prompts over {taken[-1]:,} tokens would not have fitted it" if taken else ""
        try:
            sample = session.ask("prefill", Shape(tokens, 1))
            if sample.answer.ttft > SURPRISE * expected + SURPRISE_S:
                session.ask("prefill", Shape(tokens, 1))  # cold at this length: what it costs when warm, then
        except Refused as refusal:
            if not taken or refusal.status not in TOO_LONG:
                raise
            return taken, f"; the server refused a prompt of {tokens:,} tokens (HTTP {refusal.status})"
        taken.append(tokens)
    return taken, ""


def _round(session: Session, order: Sequence[int], number: int, left: Callable[[], float]) -> bool:
    """One request at each length that still fits; False when none did.

    The order is shuffled, so that a drifting machine does not look like a slope; the last round, which does not fit as
    a whole, starts with the most telling lengths instead.
    """
    queue = list(order)
    if sum(session.expected_prefill(tokens) for tokens in queue) <= left():
        random.Random(number).shuffle(queue)
    asked = False
    for tokens in queue:
        if session.expected_prefill(tokens) <= left():
            session.ask("prefill", Shape(tokens, 1))
            asked = True
    return asked


def _tight(seen: PrefillObservation | None) -> bool:
    if seen is None or seen.fit is None or min(point.samples for point in seen.points) < plan.LEAST_KEPT:
        return False
    slope = seen.fit.per_token
    return slope.low is not None and slope.high is not None and slope.high - slope.low <= 2 * plan.TIGHT * slope.value


def _fit(lengths: Sequence[tuple[int, Sequence[Sample]]], samples: Sequence[Sample]) -> PrefillFit | None:
    distinct = len({tokens for tokens, _ in lengths})
    if distinct < 2:
        return None
    powers = min(distinct, 3)
    x = [float(tokens) for tokens, group in lengths for _ in group]
    y = [sample.answer.ttft for _, group in lengths for sample in group]
    fit = fitting.nonnegative([[n**k for k in range(powers)] for n in x], y, resolution=RESOLUTION_S)
    source = f"fit of TTFT over {distinct} lengths, {fit.samples} requests"
    overhead = fit.coefficient(0)
    late = lateness(samples)
    seen_late = f"{source}; its lower end allows for {late * 1e3:.2f} ms by which a client sees a token late"
    square = fit.coefficient(2) if powers == 3 else fitting.Interval(0.0, 0.0, math.inf)
    return PrefillFit(
        overhead=quantity(overhead._replace(low=max(0.0, overhead.low - late)), "s", seen_late),
        per_token=quantity(fit.coefficient(1), "s/token", source),
        per_token2=quantity(square, "s/token^2", source),
        residual=fit.residual,
    )


def lateness(samples: Sequence[Sample]) -> float:
    """By how much the client may see a first token later than the engine gave it, seconds.

    Two wake-ups, the server's for the request and ours for the token, each as late as a sleep of a millisecond was in
    this run, and ``WIRE_S`` for the bytes in between.
    """
    return WIRE_S + 2 * statistics.median(sample.lag_s for sample in samples)
