"""A measured step taken apart: floor, overhead, excess. The largest part names the bound.

floor     the least time that the step's work allows: compute or memory, whichever binds
overhead  the part that does not grow with work: launches, host, scheduler, HTTP
excess    the rest, which grows faster than the floor: inefficient kernels, dequantisation ("kernel")
"""

from __future__ import annotations

import msgspec

from phasewise.fitting import nonnegative
from phasewise.judge.utilisation import sharp
from phasewise.model import work
from phasewise.model.model import Model
from phasewise.predict.roofline import Roof, decode_floor, prefill_floor
from phasewise.record.judgement import Bound, Share
from phasewise.record.observation import DecodeFit, PrefillObservation
from phasewise.record.prediction import FloorBound
from phasewise.record.quantity import Quantity, measured, predicted


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """A step in its parts, seconds. ``overhead`` carries its interval; ``side`` is the ceiling that the floor meets."""

    step: float
    floor: float
    overhead: Quantity
    side: FloorBound

    @property
    def excess(self) -> float:
        """What neither floor nor overhead explains."""
        return max(0.0, self.step - self.floor - self.overhead.value)

    def shares(self) -> tuple[Share, ...]:
        """The parts as shares of the step, largest first; they add up to the step."""
        low, high = self.overhead.low or 0.0, self.overhead.high or 0.0
        room = max(0.0, self.step - self.floor)
        parts: list[tuple[Bound, Quantity]] = [
            (self.side, predicted(min(self.floor, self.step), "s", "floor")),
            ("overhead", self.overhead),
            ("kernel", measured(self.excess, "s", "the rest", max(0.0, room - high), max(0.0, room - low))),
        ]
        parts.sort(key=lambda part: -part[1].value)
        return tuple(Share(name=name, seconds=seconds, fraction=_part(seconds, self.step)) for name, seconds in parts)

    @property
    def bound(self) -> Bound:
        """The largest part."""
        return self._largest(self.overhead.value)

    @property
    def rival(self) -> Bound | None:
        """Another part that is the largest at one end of the overhead's interval; None when the bound is sure."""
        ends = (self.overhead.low or 0.0, self.overhead.value if self.overhead.high is None else self.overhead.high)
        return next((name for name in map(self._largest, ends) if name != self.bound), None)

    def _largest(self, overhead: float) -> Bound:
        parts: dict[Bound, float] = {
            self.side: self.floor,
            "overhead": overhead,
            "kernel": self.step - self.floor - overhead,
        }
        return max(parts, key=lambda name: parts[name])


def _part(seconds: Quantity, step: float) -> Quantity:
    whole = measured(step, "s", "measured step")
    return seconds.over(whole, unit="1", provenance="measured", source=f"{seconds.source} over the step")


def of_prefill(model: Model, roof: Roof, seen: PrefillObservation, tokens: float, step: float) -> Parts:
    """Take a prefill of ``tokens`` tokens apart.

    The overhead is the intercept of the fitted TTFT, less the intercept that the same fit gives to the floor itself at
    the same lengths: a short prefill waits for the weights, and that wait is memory, not overhead.
    """
    floor = float(prefill_floor(model, roof, tokens))
    if seen.fit is None:
        overhead = _clipped(0.0, 0.0, step - floor, step - floor, "unknown with one length")
    else:
        own = _floor_intercept(model, roof, [point.tokens for point in seen.points])
        fitted = seen.fit.overhead
        low, high = fitted.low or 0.0, fitted.value if fitted.high is None else fitted.high
        overhead = _clipped(
            fitted.value - own, low - own, high - own, step - floor, "intercept of TTFT less the floor's"
        )
    return Parts(step=step, floor=floor, overhead=overhead, side=side(work.prefill(model, tokens), roof))


def _floor_intercept(model: Model, roof: Roof, lengths: list[int]) -> float:
    import numpy as np

    tokens = np.array(sorted(set(lengths)), dtype=float)
    floors = prefill_floor(model, roof, tokens) + 0.0 * tokens
    powers = np.stack([tokens**power for power in range(min(3, len(tokens)))], axis=1)
    return float(nonnegative(powers, floors).values[0])


def of_decode(
    model: Model, roof: Roof, fit: DecodeFit | None, context: float, step: float, prefill_overhead: Quantity | None
) -> Parts:
    """Take a decode step at ``context`` tokens apart.

    Only the KV cache grows with context, so the fit sees what a byte costs. The weights' bytes are taken to cost as
    much, as far as the step has room for it, and the overhead is what is left at zero bytes. A decode step launches the
    kernels that a prefill pass launches and does less around them, so the overhead of prefill caps it. Where neither
    tells, the interval of the overhead is wide and says so.
    """
    floor = float(decode_floor(model, roof, context))
    weights = float(decode_floor(model, roof, 0.0))
    room = max(0.0, step - floor)
    least, likely, most = (
        room - (cost - 1) * weights for cost in reversed(_cost_of_a_byte(model, roof, fit, context, step))
    )
    source = "step time at zero bytes"
    if prefill_overhead is not None:
        cap = prefill_overhead.value if prefill_overhead.high is None else prefill_overhead.high
        if cap < likely:
            source = "at most the overhead of a prefill pass"
        least, likely, most = min(least, cap), min(likely, cap), min(most, cap)
    overhead = _clipped(likely, least, most, room, source)
    return Parts(step=step, floor=floor, overhead=overhead, side=side(work.decode(model, context), roof))


def _cost_of_a_byte(
    model: Model, roof: Roof, fit: DecodeFit | None, context: float, step: float
) -> tuple[float, float, float]:
    """Seconds of a weight byte over the ceiling's: least, likely and most, from the slope over context.

    At least 1, at most what fills the whole step. A slope too blunt to use leaves both ends open and 1 likely; one that
    is steeper than any weight byte can be leaves the lower end open, since the attention kernel alone may be to blame.
    """
    fills = max(1.0, step / max(float(decode_floor(model, roof, 0.0)), 1e-12))
    grown = float(decode_floor(model, roof, context)) - float(decode_floor(model, roof, 0.0))
    if fit is None or not sharp(fit.per_context_token) or grown <= 0 or context <= 0:
        return 1.0, 1.0, fills
    slope, floor_slope = fit.per_context_token, grown / context
    low, likely, high = (
        min(fills, max(1.0, (slope.value if end is None else end) / floor_slope))
        for end in (slope.low, slope.value, slope.high)
    )
    return (1.0 if slope.value / floor_slope > fills else low), likely, high


def _clipped(value: float, low: float, high: float, room: float, source: str) -> Quantity:
    ends = [min(max(x, 0.0), max(0.0, room)) for x in (low, value, high)]
    return measured(ends[1], "s", source, min(ends), max(ends))


def side(step: work.Work, roof: Roof) -> FloorBound:
    """The ceiling that a step's work as a whole meets."""
    compute, memory = float(step.flops) / roof.compute.value, float(step.bytes) / roof.bandwidth.value
    return "compute" if compute >= memory else "memory"
