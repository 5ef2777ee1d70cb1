"""Who owns the time of a request: prefill or decode; and what owns TTFT."""

from __future__ import annotations

import msgspec

from phasewise.judge import shares
from phasewise.judge.case import Ask, Case, decode_step, prefill_step
from phasewise.predict.request import decode_time
from phasewise.record.judgement import Bound, Split
from phasewise.record.observation import DecodeObservation, PrefillObservation
from phasewise.record.quantity import Quantity, measured


def splits(case: Case) -> tuple[Split, ...]:
    """One split per asked request; none unless both phases were measured."""
    prefill, decode = case.observation.prefill, case.observation.decode
    if prefill is None or decode is None:
        return ()
    return tuple(_split(case, prefill, decode, ask) for ask in case.asks)


def _split(case: Case, prefill: PrefillObservation, decode: DecodeObservation, ask: Ask) -> Split:
    ttft = msgspec.structs.replace(prefill_step(prefill, float(ask.prompt)), source="fit of TTFT")
    steps = _decode(decode, ask)
    total = ttft.value + steps.value
    return Split(
        prompt_tokens=ask.prompt,
        answer_tokens=ask.answer,
        weight=ask.weight,
        ttft=ttft,
        decode=steps,
        total=measured(
            total,
            "s",
            "TTFT and decode steps",
            (ttft.low or 0) + (steps.low or 0),
            (ttft.high or 0) + (steps.high or 0),
        ),
        prefill_share=ttft.value / total,
        decode_share=steps.value / total,
        owner="prefill" if ttft.value > steps.value else "decode",
        ttft_owner=_ttft_owner(case, prefill, ask, ttft.value),
    )


def _decode(seen: DecodeObservation, ask: Ask) -> Quantity:
    fit = seen.fit
    middle = ask.prompt + ask.answer / 2
    step = decode_step(seen, middle)
    steps = max(0, ask.answer - 1)
    at_zero, slope = (fit.at_zero.value, fit.per_context_token.value) if fit else (seen.tpot.value, 0.0)
    value = decode_time(lambda context: at_zero + slope * context, ask.prompt, ask.answer)
    low, high = step.low or step.value, step.high or step.value
    return measured(value, "s", f"{steps} decode steps at growing context", low * steps, high * steps)


def _ttft_owner(case: Case, seen: PrefillObservation, ask: Ask, ttft: float) -> Bound:
    if case.ground:
        return shares.of_prefill(*case.ground, seen, float(ask.prompt), ttft).bound
    if seen.fit and seen.fit.overhead.value > ttft / 2:
        return "overhead"
    return "unknown"


def mixed(found: tuple[Split, ...]) -> tuple[float, float] | None:
    """Prefill's and decode's share of the time of the whole mix."""
    total = sum(s.weight * s.total.value for s in found)
    if total <= 0:
        return None
    prefill = sum(s.weight * s.ttft.value for s in found) / total
    return prefill, 1.0 - prefill
