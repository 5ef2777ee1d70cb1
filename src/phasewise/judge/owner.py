"""Who owns the time of a request: prefill or decode; and what owns TTFT."""

from __future__ import annotations

from phasewise.judge import shares
from phasewise.judge.case import Ask, Case, decode_step, prefill_step
from phasewise.predict.request import decode_time
from phasewise.predict.roofline import prefill_floor
from phasewise.record.judgement import Bound, Split
from phasewise.record.observation import DecodeObservation, PrefillObservation
from phasewise.record.quantity import Quantity, measured

REACH = 1.1
"""A prompt this much longer than the longest one measured still counts as measured."""


def splits(case: Case) -> tuple[Split, ...]:
    """One split per asked request whose TTFT the measured prompts tell; none unless both phases were measured."""
    prefill, decode = case.observation.prefill, case.observation.decode
    if prefill is None or decode is None:
        return ()
    found = (_split(case, prefill, decode, ask) for ask in case.asks)
    return tuple(split for split in found if split is not None)


def _split(case: Case, prefill: PrefillObservation, decode: DecodeObservation, ask: Ask) -> Split | None:
    ttft = _ttft(case, prefill, ask)
    if ttft is None:
        return None
    steps = _decode(decode, ask)
    total = ttft.value + steps.value
    low, high = (ttft.low or 0) + (steps.low or 0), (ttft.high or 0) + (steps.high or 0)
    return Split(
        prompt_tokens=ask.prompt,
        answer_tokens=ask.answer,
        weight=ask.weight,
        ttft=ttft,
        decode=steps,
        total=Quantity(
            value=total, low=low, high=high, unit="s", provenance=ttft.provenance, source="TTFT and decode steps"
        ),
        prefill_share=ttft.value / total,
        decode_share=steps.value / total,
        owner="prefill" if ttft.value > steps.value else "decode",
        ttft_owner=_ttft_owner(case, prefill, ask, ttft.value),
        sure=(ttft.low or 0) > (steps.high or 0) or (steps.low or 0) > (ttft.high or 0),
    )


def _ttft(case: Case, seen: PrefillObservation, ask: Ask) -> Quantity | None:
    """TTFT of the asked prompt; None where the measured lengths do not tell it.

    Beyond them the fit is extended, as a prediction whose interval is that of its coefficients together; one length
    tells nothing of another, and an extension below the floor is no TTFT.
    """
    longest = max(point.tokens for point in seen.points)
    if seen.fit is None:
        near = [point for point in seen.points if abs(point.tokens / ask.prompt - 1) < REACH - 1]
        return near[0].ttft if near else None
    if ask.prompt <= REACH * longest:
        return prefill_step(seen, float(ask.prompt))
    value = seen.fit.at(ask.prompt)
    if case.ground and value < float(prefill_floor(*case.ground, float(ask.prompt))):
        return None
    powers = ((seen.fit.overhead, 1), (seen.fit.per_token, ask.prompt), (seen.fit.per_token2, ask.prompt**2))
    low = sum((q.value if q.low is None else q.low) * power for q, power in powers)
    high = sum((q.value if q.high is None else q.high) * power for q, power in powers)
    source = f"fit of TTFT, extended from {longest:,} tokens"
    return Quantity(value=value, low=low, high=high, unit="s", provenance="predicted", source=source)


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
