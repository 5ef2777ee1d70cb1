"""Decode by the difference of two answer lengths, for servers that give no token before the answer is complete.

Such a server sends the whole answer in one burst, or replays it evenly once it has it. Then TTFT is the time of the
whole answer, and what it grows by from a short answer to a long one, over the tokens between them, is the time per
token. Whatever is replayed after the first token does not count.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence

from phasewise import fitting
from phasewise.isolate import plan
from phasewise.isolate.prefill import RESOLUTION_S, quantity
from phasewise.isolate.sample import Sample, Shape
from phasewise.isolate.session import Session
from phasewise.record.observation import DecodeObservation, DecodePoint

GROWS = 0.3
"""Part of what a longer answer takes more that raises a suspicion when it comes before the first token."""

NOISE = 0.1
"""Part of a TTFT by which the best of another length may be later without meaning anything."""

APART = 4
"""The shorter answer has this part of the longer one's tokens."""

MOST_ROUNDS = 12

SPENT = "the time budget was spent"


def suspected(samples: Sequence[Sample]) -> bool:
    """Whether the first token of the longest answer came late: `confirmed` asks whether it always does.

    It is held against the best of the requests with at least as long a prompt and at most half the tokens, such as
    those of the prefill profile.
    """
    long, short = _ends(samples)
    if not long or not short:
        return False
    first = min(s.answer.ttft for s in short)
    later = min(s.answer.ttft for s in long) - first
    more = min(map(_whole, long)) - min(map(_whole, short))
    return more > 0 and later > max(GROWS * more, NOISE * first)


def confirmed(session: Session, shape: Shape) -> bool:
    """Whether the first token comes later the longer the answer is, by an answer of half the length and another whole.

    A first answer may have been cold; and what a proxy collects before it sends delays the first token by so many
    tokens, whatever the answer's length.
    """
    half = Shape(shape.prompt, shape.answer // 2)
    session.ask("decode", half, warmup=True)
    session.ask("decode", shape)
    if not suspected(session.samples):
        return False
    long, short = _ends(session.samples)
    halves = [s for s in session.samples if s.shape == half and s.phase == "decode"]
    if not halves:
        return False
    (n, late), (middle, halfway), (m, first) = map(_best, (long, halves, short))
    return middle < n and (late - halfway) / (n - middle) > (late - first) / (n - m) / 2


def _ends(samples: Sequence[Sample]) -> tuple[list[Sample], list[Sample]]:
    """The longest answers, and the requests with at most half their tokens and no shorter a prompt."""
    tokens = max((s.counted[0] for s in samples if s.phase == "decode"), default=0)
    long = [s for s in samples if s.phase == "decode" and s.counted[0] == tokens]
    prompt = min((s.prompt_tokens for s in long), default=0)
    return long, [s for s in samples if s.prompt_tokens >= prompt and 2 * s.counted[0] < tokens]


def _best(samples: Sequence[Sample]) -> tuple[int, float]:
    """Tokens and TTFT of the quickest."""
    quickest = min(samples, key=lambda sample: sample.answer.ttft)
    return quickest.counted[0], quickest.answer.ttft


def _whole(sample: Sample) -> float:
    return sample.answer.ended_at - sample.answer.sent_at


def measure(session: Session, shape: Shape) -> str:
    """Sample answers of ``shape`` and of a part of its length in turns; returns why it stopped."""
    session.at_once()
    shapes = [shape, Shape(shape.prompt, max(1, shape.answer // APART))]
    for number in range(MOST_ROUNDS):
        asked = False
        for one in random.Random(number).sample(shapes, len(shapes)):
            if session.costs.most(one) <= session.left():
                session.ask("decode", one)
                asked = True
        if not asked:
            return SPENT
        if number >= plan.LEAST_KEPT and _tight(session.samples):
            return "the interval was tight"
    return f"each answer length was sampled {MOST_ROUNDS} times"


def observe(groups: Sequence[Sequence[Sample]]) -> DecodeObservation | None:
    """What answers of two lengths say, given in groups of one shape; None while there is only one."""
    lengths = [(statistics.median(s.counted[0] for s in group), group) for group in groups if group]
    if len({tokens for tokens, _ in lengths}) < 2:
        return None
    samples = [sample for _, group in lengths for sample in group]
    fit = fitting.nonnegative(
        [[1.0, sample.counted[0] - 1.0] for sample in samples],
        [sample.answer.ttft for sample in samples],
        resolution=RESOLUTION_S,
    )
    short, long = min(tokens for tokens, _ in lengths), max(tokens for tokens, _ in lengths)
    prompt = statistics.median(sample.prompt_tokens for sample in samples)
    source = (
        f"difference of answers of {short:,.0f} and {long:,.0f} tokens, {len(samples)} requests: they came only when "
        "they were complete"
    )
    tpot = quantity(fit.coefficient(1), "s", source)
    context = prompt + (short + long) / 2
    point = DecodePoint(
        context=context, prompt_tokens=round(prompt), generated=round(long - short), tpot=tpot, samples=len(samples)
    )
    chunks = sum(len(sample.carrying) for sample in samples)
    return DecodeObservation(
        points=(point,),
        fit=None,
        tpot=tpot,
        tpot_context=context,
        tokens_per_chunk=sum(sample.counted[0] for sample in samples) / max(1, chunks),
    )


def _tight(samples: Sequence[Sample]) -> bool:
    groups: dict[Shape, list[Sample]] = {}
    for sample in samples:
        if sample.phase == "decode" and not sample.warmup:
            groups.setdefault(sample.shape, []).append(sample)
    seen = observe(list(groups.values()))
    if seen is None or seen.tpot.low is None or seen.tpot.high is None:
        return False
    return seen.tpot.high - seen.tpot.low <= plan.TIGHT * seen.tpot.value
