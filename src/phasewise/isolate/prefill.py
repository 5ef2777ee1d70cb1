"""Prefill alone: prompts of several lengths, one token asked for, one request at a time."""

from __future__ import annotations

import itertools
import math
import random
import statistics
from collections.abc import Callable, Sequence

from phasewise import fitting
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
"""Requests at each length, at most, since the last length was added."""


def measure(
    session: Session, *, budget_s: float, max_prompt: int | None = None, lengths: Sequence[int] | None = None
) -> str:
    """Sample TTFT over prompt lengths for at most ``budget_s``; returns why it stopped.

    What lengths cost is learnt on the way, and what a first request took may have been the machine's doing: so before
    each round every length is added that has become affordable.
    """
    until = session.left() - budget_s

    def left() -> float:
        return session.left() - max(0.0, until)

    longest = plan.longest_prompt(session.engine.target.max_context, max_prompt, 1)
    rungs = sorted(set(lengths)) if lengths else plan.ladder(longest)
    session.ask("prefill", Shape(rungs[0], 1), warmup=True)  # the first request of all may compile, load or connect
    taken: list[int] = []
    order: list[int] = []
    rounds = 0
    for number in itertools.count():
        if _climb(session, rungs, taken, left, chosen=bool(lengths)):
            rounds = 0
        elif rounds >= plan.LEAST_KEPT and _tight(observe(session.samples), len(order)):
            return f"the intervals were tight{_limit(session, rungs, taken)}"
        elif rounds >= MOST_ROUNDS - 1:
            return f"every length was sampled {MOST_ROUNDS} times{_limit(session, rungs, taken)}"
        order = plan.telling(taken)[: len(taken) if lengths else plan.MOST_LENGTHS]
        if _round(session, order, number, left) < max(1, min(2, len(order))):
            break  # what is left buys one length at most, and repeats of one length say nothing about the others
        rounds += 1
    return f"the time budget was spent{_limit(session, rungs, taken)}"


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
    scatter = fitting.pooled([[sample.answer.ttft for sample in group] for _, group in lengths])
    points = []
    for tokens, group in lengths:
        times = [sample.answer.ttft for sample in group]
        source = f"median of {len(times)} {'request' if len(times) == 1 else 'requests'} with max_tokens=1"
        ttft = quantity(fitting.median_interval(times, scatter), "s", source)
        points.append(PrefillPoint(tokens=tokens, ttft=ttft, best=min(times), samples=len(times)))
    return PrefillObservation(points=tuple(points), fit=_fit(lengths, samples))


def quantity(interval: fitting.Interval, unit: Unit, source: str) -> Quantity:
    """``interval`` as a measured quantity; without ends when the data set no bound."""
    bounded = math.isfinite(interval.low) and math.isfinite(interval.high)
    low, high = (interval.low, interval.high) if bounded else (None, None)
    return measured(interval.value, unit, source, low, high)


def _tokens(group: Sequence[Sample]) -> int:
    return round(statistics.median(sample.prompt_tokens for sample in group))


def _climb(
    session: Session, rungs: Sequence[int], taken: list[int], left: Callable[[], float], *, chosen: bool
) -> bool:
    """One request at each length that is not ``taken`` yet, upward, while it is affordable; whether any was added."""
    before = len(taken)
    for tokens in rungs:
        if tokens in taken:
            continue
        if not session.takes(tokens) or not _affordable(session, tokens, taken, left, chosen=chosen):
            break
        if not session.offer("prefill", Shape(tokens, 1)):
            break
        taken.append(tokens)
    return len(taken) > before


def _affordable(
    session: Session, tokens: int, taken: Sequence[int], left: Callable[[], float], *, chosen: bool
) -> bool:
    """Whether a new longest length leaves time for repeats of it, of the shortest and of the one below it.

    The first of all is tried as long as there is time, for what a cold engine took to warm up foretells nothing. The
    second need only fit itself, as one length alone makes no profile; those that the user chose, the whole budget.
    """
    if not taken:
        return left() > 0
    if chosen or len(taken) == 1:
        return session.costs.most(Shape(tokens, 1)) <= (session.left() if chosen else left())
    one = session.costs.likely(Shape(tokens, 1))
    others = sum(session.costs.likely(Shape(other, 1)) for other in (min(taken), max(taken)))
    return one + (plan.PASSES - 1) * (one + others) <= left()


def _limit(session: Session, rungs: Sequence[int], taken: Sequence[int]) -> str:
    """Why no longer prompts were sent, to go on the reason why it stopped; empty when all lengths were."""
    if not taken or len(taken) == len(rungs):
        return ""
    if session.refused and max(taken) < session.refused[0]:
        tokens, status = session.refused
        return f"; the server refused a prompt of {tokens:,} tokens (HTTP {status})"
    return f"; prompts over {max(taken):,} tokens would not have fitted it"


def _round(session: Session, order: Sequence[int], number: int, left: Callable[[], float]) -> int:
    """One request at each length that still fits; returns how many these were.

    The order is shuffled, so that a drifting machine does not look like a slope; the last round, which does not fit as
    a whole, starts with the most telling lengths instead.
    """
    queue = [Shape(tokens, 1) for tokens in order]
    if sum(session.costs.likely(shape) for shape in queue) <= left():
        random.Random(number).shuffle(queue)
    asked = 0
    for shape in queue:
        if session.costs.most(shape) <= left():
            session.ask("prefill", shape)
            asked += 1
    return asked


def _tight(seen: PrefillObservation | None, lengths: int) -> bool:
    """Whether all ``lengths`` are sampled often enough and the slope is known."""
    if (
        seen is None
        or seen.fit is None
        or len(seen.points) < lengths
        or min(point.samples for point in seen.points) < plan.LEAST_KEPT
    ):
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
