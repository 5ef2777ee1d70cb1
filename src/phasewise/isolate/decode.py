"""Decode alone: a long answer after a short prompt, and answers after long prompts for the slope over context."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence

from phasewise import fitting
from phasewise.errors import Refused
from phasewise.isolate import plan
from phasewise.isolate.prefill import TOO_LONG, quantity
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

MOST_ROUNDS = 12


def measure(session: Session, *, max_prompt: int | None = None) -> str:
    """Sample TPOT over context until the budget is spent or the intervals are tight; returns why it stopped."""
    context = session.engine.target.max_context
    prompt = SHORT_PROMPT if context is None else max(1, min(SHORT_PROMPT, context // 4))
    room = MOST_ANSWER if context is None else max(2, context - prompt - plan.MARGIN)
    probe = session.ask("decode", Shape(prompt, min(PROBE_TOKENS, room)), warmup=True)
    if session.left() <= 0:
        return "the time budget was spent by the first request"
    answer = min(room, _answer(_step(probe), session.left()))
    session.ask("decode", Shape(prompt, answer))
    step = _step(session.samples[-1])
    shapes = [Shape(prompt, answer), *(Shape(n, answer) for n in _long_prompts(session, answer, step, max_prompt))]
    for number in range(1, MOST_ROUNDS):
        if not _round(session, shapes, step, number):
            return "the time budget was spent"
        if number >= plan.LEAST_KEPT and _tight(observe(session.samples), len(shapes)):
            return "the intervals were tight"
    return f"every context was sampled {MOST_ROUNDS} times"


def kept(samples: Sequence[Sample]) -> dict[Shape, list[Sample]]:
    """Decode samples that count, by shape in ascending order: warm, with at least two tokens and time between them.

    Nothing is discarded for being the first at its prompt length: decode was warmed up by the probe, and TPOT holds no
    prefill. One that the next undercuts is.
    """
    found: dict[Shape, list[Sample]] = {}
    for sample in samples:
        if sample.phase == "decode" and not sample.warmup and sample.tpot is not None:
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
    short = groups[0]
    times = [sample.tpot for sample in short if sample.tpot is not None]
    tokens = statistics.median(sample.counted[0] for sample in short)
    parts = [(group, part) for group in groups for part in _parts(group)]
    return DecodeObservation(
        points=tuple(sorted((_point(group, part) for group, part in parts), key=lambda point: point.context)),
        fit=_fit([part for _, part in parts]),
        tpot=_tpot(times, tokens - 1),
        tpot_context=statistics.median(sample.prompt_tokens + sample.counted[0] / 2 for sample in short),
        tokens_per_chunk=_tokens_per_chunk(groups),
    )


def _answer(step: float, left: float) -> int:
    """Tokens of a long answer: about two seconds' worth, at most a twelfth of the time that is left."""
    wanted = max(LEAST_ANSWER, min(MOST_ANSWER, round(ANSWER_S / step)))
    return max(PROBE_TOKENS, min(wanted, int(left / 12 / step)))


def _step(sample: Sample) -> float:
    """Seconds per token of ``sample``; of its whole time when the tokens came in a burst."""
    whole = sample.wall_s / max(1, sample.counted[0])
    return max(1e-6, whole if sample.tpot is None or sample.tpot < whole / 4 else sample.tpot)


def _long_prompts(session: Session, answer: int, step: float, max_prompt: int | None) -> list[int]:
    """The longest prompt of which three requests fit most of the time that is left, and one half as long."""
    longest = plan.longest_prompt(session.engine.target.max_context, max_prompt, answer)
    taken: list[int] = []
    for tokens in plan.ladder(longest):
        if tokens < 4 * SHORT_PROMPT:
            continue
        expected = session.expected_prefill(tokens) + answer * step
        if plan.PASSES * expected > 0.6 * session.left():
            break
        if all(sample.shape.prompt < tokens for sample in session.samples):
            try:
                session.ask("decode", Shape(tokens, answer))
            except Refused as refusal:
                if refusal.status not in TOO_LONG:
                    raise
                break
        taken.append(tokens)
    return plan.telling([SHORT_PROMPT, *taken])[1:3] if taken else []


def _round(session: Session, shapes: Sequence[Shape], step: float, number: int) -> bool:
    """One request of each shape that still fits, in shuffled order; False when none did."""
    asked = False
    for shape in random.Random(number).sample(shapes, len(shapes)):
        if session.expected_prefill(shape.prompt) + shape.answer * step <= session.left():
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


def _tpot(times: Sequence[float], steps: float) -> Quantity:
    """Median of ``times``, its interval widened by the error of the client's timestamps over ``steps`` steps."""
    middle = fitting.median_interval(times)
    error = TIMESTAMP_S / max(1.0, steps)
    wide = fitting.Interval(
        middle.value,
        max(0.0, middle.value - math.hypot(middle.value - middle.low, error)),
        middle.value + math.hypot(middle.high - middle.value, error),
    )
    return quantity(wide, "s", f"median of {len(times)} answers")


def _parts(group: Sequence[Sample]) -> list[tuple[Stretch, ...]]:
    """Stretches that lie at the same place in the answers of one shape, together."""
    split = [sample.stretches() for sample in group]
    usual = statistics.mode(len(stretches) for stretches in split)
    return list(zip(*(stretches for stretches in split if len(stretches) == usual), strict=True))


def _point(group: Sequence[Sample], part: Sequence[Stretch]) -> DecodePoint:
    steps = round(statistics.median(stretch.tokens for stretch in part))
    return DecodePoint(
        context=statistics.median(stretch.context for stretch in part),
        prompt_tokens=round(statistics.median(sample.prompt_tokens for sample in group)),
        generated=steps,
        tpot=_tpot([stretch.tpot for stretch in part], steps),
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
