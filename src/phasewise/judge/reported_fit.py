"""Several lengths or contexts of other tools' results, judged as a profile is: from the fit over them."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from phasewise import fitting
from phasewise.judge import phases
from phasewise.judge.case import Ask, Case
from phasewise.model.model import Model
from phasewise.predict.roofline import Roof
from phasewise.record.judgement import PhaseVerdict
from phasewise.record.observation import (
    DecodeFit,
    DecodeObservation,
    DecodePoint,
    Observation,
    PrefillFit,
    PrefillObservation,
    PrefillPoint,
)
from phasewise.record.quantity import Quantity
from phasewise.record.results import Reported, Step
from phasewise.units import Unit

LEAST = 3
"""Lengths or contexts that a fit needs here: two are met exactly by a line, whatever they are."""


def prefill(said: Reported, model: Model | None, under: tuple[Roof, ...], why_null: str) -> PhaseVerdict | None:
    """Prefill over at least three lengths, each alone and uncached; None where there are fewer."""
    steps = _clean([row.prefill for row in said.rows if row.prefill])
    if len(steps) < LEAST:
        return None
    points = tuple(PrefillPoint(tokens=round(s.tokens.value), ttft=s.time, best=s.time.value, samples=1) for s in steps)
    design = [[s.tokens.value**k for k in range(3)] for s in steps]
    fit = fitting.nonnegative(design, [s.time.value for s in steps])
    over = f"fit over {len(steps)} lengths"
    seen = PrefillObservation(
        points=points,
        fit=PrefillFit(
            overhead=_quantity(fit.coefficient(0), "s", over),
            per_token=_quantity(fit.coefficient(1), "s/token", over),
            per_token2=_quantity(fit.coefficient(2), "s/token^2", over),
            residual=fit.residual,
        ),
    )
    case = _case(model, under, why_null, Ask(prompt=max(point.tokens for point in points)), prefill=seen)
    return _reported(phases.prefill(case))


def decode(said: Reported, model: Model | None, under: tuple[Roof, ...], why_null: str) -> PhaseVerdict | None:
    """Decode at batch 1 over at least three contexts; None where there are fewer."""
    steps = _clean([row.decode for row in said.rows if row.decode])
    if len(steps) < LEAST:
        return None
    points = tuple(
        DecodePoint(context=s.tokens.value, prompt_tokens=0, generated=0, tpot=s.time, samples=1) for s in steps
    )
    fit = fitting.nonnegative([[1.0, s.tokens.value] for s in steps], [s.time.value for s in steps])
    over = f"fit over {len(steps)} contexts"
    seen = DecodeObservation(
        points=points,
        fit=DecodeFit(
            at_zero=_quantity(fit.coefficient(0), "s", over),
            per_context_token=_quantity(fit.coefficient(1), "s/token", over),
            residual=fit.residual,
        ),
        tpot=steps[0].time,
        tpot_context=steps[0].tokens.value,
        tokens_per_chunk=1.0,
    )
    case = _case(model, under, why_null, Ask(prompt=max(1, round(steps[0].tokens.value)), answer=1), decode=seen)
    return _reported(phases.decode(case))


def _clean(steps: list[Step]) -> list[Step]:
    """One step of each length, alone, uncached and nothing else in its time; the shortest first."""
    found = {s.tokens.value: s for s in steps if s.batch.value == 1 and not s.cached and not s.least}
    return [found[tokens] for tokens in sorted(found)]


def _case(
    model: Model | None,
    under: tuple[Roof, ...],
    why_null: str,
    ask: Ask,
    prefill: PrefillObservation | None = None,
    decode: DecodeObservation | None = None,
) -> Case:
    seen = Observation(
        prefill=prefill, decode=decode, checks=(), requests=0, prompt_tokens=0, output_tokens=0, stopped=""
    )
    return Case(observation=seen, asks=(ask,), model=model, roofs=under, why_null=why_null)


def _quantity(found: fitting.Interval, unit: Unit, source: str) -> Quantity:
    return Quantity(value=found.value, low=found.low, high=found.high, unit=unit, provenance="reported", source=source)


def _reported(verdict: PhaseVerdict | None) -> PhaseVerdict | None:
    """The verdict of a profile, whose times are another tool's."""
    if verdict is None:
        return None

    def said(quantity: Quantity) -> Quantity:
        if quantity.provenance != "measured":
            return quantity
        return msgspec.structs.replace(quantity, provenance="reported")

    change: Callable[..., PhaseVerdict] = msgspec.structs.replace
    return change(
        verdict,
        step=said(verdict.step),
        headline=said(verdict.headline) if verdict.headline else None,
        shares=tuple(
            msgspec.structs.replace(share, seconds=said(share.seconds), fraction=said(share.fraction))
            for share in verdict.shares
        ),
        utilisations=tuple(msgspec.structs.replace(one, value=said(one.value)) for one in verdict.utilisations),
    )
