"""Decode alone: a long answer after a short prompt, and answers after long prompts for the slope over context."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence

from phasewise import fitting
from phasewise.isolate import difference, plan
from phasewise.isolate.costs import DOUBT
from phasewise.isolate.prefill import quantity
from phasewise.isolate.sample import Sample, Shape, Stretch
from phasewise.isolate.session import Session
from phasewise.record.observation import DecodeFit, DecodeObservation, DecodePoint
from phasewise.record.quantity import Quantity

SHORT_PROMPT = 32

PROBE_TOKENS = 16
"""Answer of the first request, which warms decode up and says how long a token takes."""

ANSWER_S = 2.0
"""A long answer takes about this long ..."""

LEAST_ANSWER, MOST_ANSWER = 64, 512
"""... but has no fewer and no more tokens than these."""

TIMESTAMP_S = 200e-6
"""Error of the time between two tokens as the client sees them, as a bound."""

LONG_SHARE = 0.6
"""Part of the time left that three requests after a long prompt may take."""

MOST_ROUNDS = 12

SPENT = "the time budget was spent"


def measure(session: Session, *, max_prompt: int | None = None) -> str:
    """Sample TPOT over context until the budget is spent or the intervals are tight; returns why it stopped."""
    context = session.engine.target.max_context
    prompt = SHORT_PROMPT if context is None else max(1, min(SHORT_PROMPT, context // 4))
    room = MOST_ANSWER if context is None else max(2, context - prompt - plan.MARGIN)
    if session.left() <= session.costs.most(Shape(prompt, 2)):
        return SPENT
    _probe(session, prompt, room)
    answer = min(room, _answer(session, prompt))
    if answer < 2:
        return f"{SPENT} by the first requests"
    session.ask("decode", Shape(prompt, answer))
    if difference.suspected(session.samples) and difference.confirmed(session, Shape(prompt, answer)):
        return difference.measure(session, Shape(prompt, answer))
    shapes = [Shape(prompt, answer)]
    for number in range(1, MOST_ROUNDS):
        shapes = _lengthened(session, shapes, max_prompt)
        if not _round(session, shapes, number):
            return SPENT
        if number >= plan.LEAST_KEPT and _tight(observe(session.samples), len(shapes)):
            return "the intervals were tight"
    return f"the shortest context was sampled {MOST_ROUNDS} times"


def kept(samples: Sequence[Sample]) -> dict[Shape, list[Sample]]:
    """Decode samples that count, by shape in ascending order: warm, with at least two tokens and time between them.

    Where answers come at once, those count of which nothing else is known.

    Nothing is discarded for being the first at its prompt length: decode was warmed up by the probe, and TPOT holds no
    prefill. One that the next undercuts is.
    """
    found: dict[Shape, list[Sample]] = {}
    for sample in samples:
        if sample.phase == "decode" and not sample.warmup and (sample.tpot is not None or sample.at_once):
            found.setdefault(sample.shape, []).append(sample)
    return {
        shape: found[shape][plan.first_kept([s.repeatable for s in found[shape]], discard=0) :]
        for shape in sorted(found)
    }


def observe(samples: Sequence[Sample]) -> DecodeObservation | None:
    """What the samples say; None when none of them counts."""
    groups = [group for group in kept(samples).values() if group]
    if not groups:
        return None
    if groups[0][0].at_once:
        return difference.observe(groups)
    short = groups[0]
    answers = [[sample.tpot for sample in group if sample.tpot is not None] for group in groups]
    tokens = statistics.median(sample.counted[0] for sample in short)
    parts = [(group, part) for group in groups for part in _parts(group)]
    scatter = fitting.pooled([[stretch.tpot for stretch in part] for _, part in parts])
    return DecodeObservation(
        points=tuple(sorted((_point(group, part, scatter) for group, part in parts), key=lambda point: point.context)),
        fit=_fit([part for _, part in parts]),
        tpot=_tpot(answers[0], tokens - 1, fitting.pooled(answers)),
        tpot_context=statistics.median(sample.prompt_tokens + sample.counted[0] / 2 for sample in short),
        tokens_per_chunk=_tokens_per_chunk(groups),
    )


def _probe(session: Session, prompt: int, room: int) -> None:
    """A first answer, to warm up and to learn what a token takes; short when little time is left."""
    costs = session.costs
    tokens = PROBE_TOKENS
    if step := costs.step(prompt):
        tokens = max(2, min(tokens, int((session.left() / plan.PASSES - costs.prefill(prompt)) / step)))
    while not any(sample.phase == "decode" for sample in session.samples):  # the session ends what fails for good
        session.ask("decode", Shape(prompt, min(tokens, room)), warmup=True)


def _answer(session: Session, prompt: int) -> int:
    """Tokens of a long answer: about two seconds' worth, at most a twelfth of the time that is left.

    When that is very little, what fits; under 2 when nothing does.
    """
    step, left = session.costs.step(prompt), session.left()
    wanted = max(LEAST_ANSWER, min(MOST_ANSWER, round(ANSWER_S / step)))
    fits = int((left / DOUBT - session.costs.prefill(prompt)) / step)
    return min(fits, max(PROBE_TOKENS, min(wanted, int(left / 12 / step))))


def _lengthened(session: Session, shapes: Sequence[Shape], max_prompt: int | None) -> list[Shape]:
    """``shapes`` and, after a first request of each, the longest prompt that is affordable and one half as long.

    Once there are long prompts, only one that is at least twice as long is worth its time.
    """
    answer, longest = shapes[0].answer, max(shape.prompt for shape in shapes)
    found = _long_prompts(session, answer, max_prompt)
    if not found or found[0] < 2 * longest:
        return list(shapes)
    new = [Shape(prompt, answer) for prompt in found if prompt > longest]
    return [*shapes, *(shape for shape in new if _seen(session, shape) or _offered(session, shape))]


def _long_prompts(session: Session, answer: int, max_prompt: int | None) -> list[int]:
    """The longest prompt of which three requests fit most of the time that is left, and one half as long."""
    longest = plan.longest_prompt(session.engine.target.max_context, max_prompt, answer)
    taken: list[int] = []
    for tokens in plan.ladder(longest):
        if tokens < 4 * SHORT_PROMPT:
            continue
        shape = Shape(tokens, answer)
        if not session.takes(tokens) or plan.PASSES * session.costs.likely(shape) > LONG_SHARE * session.left():
            break
        # One step up at a time: what is much longer than all that was seen cannot be foretold.
        if all(sample.shape.prompt < tokens for sample in session.samples) and not _offered(session, shape):
            break
        taken.append(tokens)
    return plan.telling([SHORT_PROMPT, *taken])[1:3] if taken else []


def _offered(session: Session, shape: Shape) -> bool:
    """Whether ``shape`` fitted what is left and was not refused."""
    return session.costs.most(shape) <= session.left() and session.offer("decode", shape)


def _seen(session: Session, shape: Shape) -> bool:
    return any(sample.shape == shape for sample in session.samples)


def _round(session: Session, shapes: Sequence[Shape], number: int) -> bool:
    """One request of each shape that still fits, in shuffled order; False when none did."""
    asked = False
    for shape in random.Random(number).sample(shapes, len(shapes)):
        if session.costs.most(shape) <= session.left():
            session.ask("decode", shape)
            asked = True
    return asked


def _tight(seen: DecodeObservation | None, shapes: int) -> bool:
    if seen is None or seen.fit is None or min(point.samples for point in seen.points) < plan.LEAST_KEPT:
        return False
    return all(_within(q, plan.TIGHT / 2) for q in (seen.tpot, seen.fit.at_zero)) and (
        shapes == 1 or _within(seen.fit.per_context_token, 10 * plan.TIGHT)
    )


def _within(q: Quantity, part: float) -> bool:
    return q.low is not None and q.high is not None and q.high - q.low <= 2 * part * q.value


def _tpot(times: Sequence[float], steps: float, scatter: fitting.Scatter) -> Quantity:
    """Median of ``times``, its interval widened by the error of the client's timestamps over ``steps`` steps."""
    middle = fitting.median_interval(times, scatter)
    error = TIMESTAMP_S / max(1.0, steps)
    wide = fitting.Interval(
        middle.value,
        max(0.0, middle.value - math.hypot(middle.value - middle.low, error)),
        middle.value + math.hypot(middle.high - middle.value, error),
    )
    return quantity(wide, "s", f"median of {len(times)} {'answer' if len(times) == 1 else 'answers'}")


def _parts(group: Sequence[Sample]) -> list[tuple[Stretch, ...]]:
    """Stretches that lie at the same place in the answers of one shape, together."""
    split = [sample.stretches() for sample in group]
    usual = statistics.mode(len(stretches) for stretches in split)
    return list(zip(*(stretches for stretches in split if len(stretches) == usual), strict=True))


def _point(group: Sequence[Sample], part: Sequence[Stretch], scatter: fitting.Scatter) -> DecodePoint:
    steps = round(statistics.median(stretch.tokens for stretch in part))
    return DecodePoint(
        context=statistics.median(stretch.context for stretch in part),
        prompt_tokens=round(statistics.median(sample.prompt_tokens for sample in group)),
        generated=steps,
        tpot=_tpot([stretch.tpot for stretch in part], steps, scatter),
        samples=len(part),
    )


def _fit(parts: Sequence[Sequence[Stretch]]) -> DecodeFit | None:
    contexts = [statistics.median(stretch.context for stretch in part) for part in parts for _ in part]
    tpots = [stretch.tpot for part in parts for stretch in part]
    distinct = len(set(contexts))
    if distinct < 2:
        return None
    steps = min(stretch.tokens for part in parts for stretch in part)
    fit = fitting.nonnegative([[1.0, c] for c in contexts], tpots, resolution=TIMESTAMP_S / 2 / steps)
    source = f"fit of TPOT over {distinct} contexts, {fit.samples} stretches"
    return DecodeFit(
        at_zero=quantity(fit.coefficient(0), "s", source),
        per_context_token=quantity(fit.coefficient(1), "s/token", source),
        residual=fit.residual,
    )


def _tokens_per_chunk(groups: Sequence[Sequence[Sample]]) -> float:
    samples = [sample for group in groups for sample in group]
    return sum(s.counted[0] for s in samples) / max(1, sum(len(s.carrying) for s in samples))
