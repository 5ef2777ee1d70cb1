"""What a judgement is made from, and the steps that were measured."""

from __future__ import annotations

from statistics import median

import msgspec

from phasewise.model.model import Model
from phasewise.predict.roofline import Roof
from phasewise.record.observation import DecodeObservation, Observation, PrefillObservation
from phasewise.record.quantity import Quantity, measured


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """A request whose time is to be explained; ``weight`` is its part of the mix."""

    prompt: int = 2000
    answer: int = 300
    weight: float = 1.0


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """Prediction and observation side by side.

    ``model`` and ``roofs`` may be missing: then times are judged, utilisations are not, and ``why_null`` says which
    flag would give them. ``roofs`` holds the most trusted ceilings first.
    """

    observation: Observation
    asks: tuple[Ask, ...] = (Ask(),)
    model: Model | None = None
    roofs: tuple[Roof, ...] = ()
    why_null: str = ""

    @property
    def ground(self) -> tuple[Model, Roof] | None:
        """The model and the roof it is judged under, when both are known."""
        return (self.model, self.roofs[0]) if self.model and self.roofs else None


def prefill_step(seen: PrefillObservation, tokens: float) -> Quantity:
    """Measured TTFT at ``tokens``: by the fit where there is one, as uncertain as a typical length."""
    if seen.fit is None:
        return min(seen.points, key=lambda point: abs(point.tokens - tokens)).ttft
    times = [point.ttft for point in seen.points]
    return _read_off(seen.fit.at(tokens), times, seen.fit.residual, f"fit of TTFT at {tokens:,.0f} tokens")


def decode_step(seen: DecodeObservation, context: float) -> Quantity:
    """Measured step time at ``context``: by the fit where there is one, as uncertain as a typical context."""
    if seen.fit is None or not seen.points:
        return seen.tpot
    source = f"fit of step time at {context:,.0f} tokens of context"
    return _read_off(seen.fit.at(context), [point.tpot for point in seen.points], seen.fit.residual, source)


def _read_off(value: float, times: list[Quantity], residual: float, source: str) -> Quantity:
    """``value`` with the median of the relative intervals: one disturbed point must not widen all the others."""
    below = median([1 - (t.value if t.low is None else t.low) / t.value for t in times])
    above = median([(t.value if t.high is None else t.high) / t.value - 1 for t in times])
    return measured(value, "s", source, low=value * (1 - max(below, residual)), high=value * (1 + max(above, residual)))


def within(tokens: float, measured_at: list[float]) -> float:
    """``tokens``, moved to the nearest end of what was measured when it lies outside."""
    return min(max(tokens, min(measured_at)), max(measured_at))
