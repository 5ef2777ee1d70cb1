"""Observations made by hand from planted truths, for judge and fix. No product arithmetic in here."""

from __future__ import annotations

from collections.abc import Callable

from phasewise.record.observation import (
    Check,
    DecodeFit,
    DecodeObservation,
    DecodePoint,
    Observation,
    PrefillFit,
    PrefillObservation,
    PrefillPoint,
)
from phasewise.record.quantity import Quantity


def q(value: float, unit: str, width: float = 0.01, floor: float = 0.0) -> Quantity:
    """A measured value with an interval of ±width."""
    return Quantity(
        value=value,
        unit=unit,  # type: ignore[arg-type]
        provenance="measured",
        source="planted",
        low=max(0.0, value * (1 - width) - floor),
        high=value * (1 + width) + floor,
    )


def prefill(
    overhead: float,
    per_token: float,
    per_token2: float = 0.0,
    lengths: tuple[int, ...] = (512, 1024, 2048, 4096),
    width: float = 0.01,
) -> PrefillObservation:
    times = {n: overhead + per_token * n + per_token2 * n * n for n in lengths}
    return PrefillObservation(
        points=tuple(PrefillPoint(tokens=n, ttft=q(t, "s", width), best=t, samples=5) for n, t in times.items()),
        fit=PrefillFit(
            overhead=q(overhead, "s", width),
            per_token=q(per_token, "s/token", width),
            per_token2=q(per_token2, "s/token^2", width),
            residual=0.001,
        ),
    )


def decode(
    step: Callable[[float], float], contexts: tuple[int, ...] = (64, 1024, 2150), width: float = 0.01
) -> DecodeObservation:
    zero, slope = step(0.0), (step(1e6) - step(0.0)) / 1e6
    return DecodeObservation(
        points=tuple(
            DecodePoint(context=float(c), prompt_tokens=c, generated=64, tpot=q(step(c), "s", width), samples=3)
            for c in contexts
        ),
        fit=DecodeFit(at_zero=q(zero, "s", width), per_context_token=q(slope, "s/token", 10 * width), residual=0.001),
        tpot=q(step(contexts[0]), "s", width),
        tpot_context=float(contexts[0]),
        tokens_per_chunk=1.0,
    )


def seen(
    prefill: PrefillObservation | None, decode: DecodeObservation | None, checks: tuple[Check, ...] = ()
) -> Observation:
    return Observation(
        prefill=prefill, decode=decode, checks=checks, requests=10, prompt_tokens=1, output_tokens=1, stopped="planted"
    )
