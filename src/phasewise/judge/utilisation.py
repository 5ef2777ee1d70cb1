"""MFU and MBU: the work that a step must do, over the time it took, over what the machine can do.

``whole`` divides all the work by all the time. ``slope`` divides extra work by extra time, so that overhead, which
does not grow, falls out: for prefill from TTFT over length, for decode from step time over context.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from phasewise.judge.case import Case, decode_step, prefill_step
from phasewise.model import work
from phasewise.model.model import Model
from phasewise.predict.roofline import Roof, ridge_tokens
from phasewise.record.judgement import Utilisation
from phasewise.record.observation import DecodeObservation, PrefillObservation
from phasewise.record.quantity import Quantity, measured, predicted

_BLUNT = 0.5
"""A slope whose interval is wider than this fraction of its value gives no utilisation worth printing."""


def of_prefill(case: Case, seen: PrefillObservation, at: float) -> tuple[Utilisation, ...]:
    """MFU and MBU of prefill at ``at`` tokens first, then at each measured length; MFU from the slope last."""
    found: list[Utilisation] = []
    if case.model is None:
        return ()
    for roof in case.roofs:
        times = [(at, prefill_step(seen, at)), *((float(point.tokens), point.ttft) for point in seen.points)]
        for tokens, time in times:
            step = work.prefill(case.model, tokens)
            found += whole(roof, tokens, float(step.flops), float(step.bytes), time)
        found += _prefill_slope(case.model, roof, seen)
    return tuple(found)


def of_decode(case: Case, seen: DecodeObservation, at: float) -> tuple[Utilisation, ...]:
    """MFU and MBU of decode at its headline, then at ``at`` and each measured context; MBU from the slope last."""
    found: list[Utilisation] = []
    if case.model is None:
        return ()
    for roof in case.roofs:
        times = [(seen.tpot_context, seen.tpot), (at, decode_step(seen, at))]
        times += [(point.context, point.tpot) for point in seen.points]
        for context, time in times:
            step = work.decode(case.model, context)
            found += whole(roof, context, float(step.flops), float(step.bytes), time)
        found += _decode_slope(case.model, roof, seen, at)
    return tuple(found)


def first(found: tuple[Utilisation, ...], yardstick: Literal["mfu", "mbu"]) -> Quantity | None:
    """The headline among ``found``: the first whole figure of that yardstick, under the most trusted roof."""
    return next((u.value for u in found if u.yardstick == yardstick and u.method == "whole"), None)


def whole(roof: Roof, tokens: float, flops: float, bytes_: float, time: Quantity) -> list[Utilisation]:
    """MFU and MBU of a step of so many FLOPs and bytes that took ``time``."""
    return [
        ratio("mfu", "whole", roof, tokens, predicted(flops, "FLOP", "counted work"), time),
        ratio("mbu", "whole", roof, tokens, predicted(bytes_, "B", "counted work"), time),
    ]


def _prefill_slope(model: Model, roof: Roof, seen: PrefillObservation) -> list[Utilisation]:
    """MFU from the shortest length above the ridge to the longest: below it, math hides behind the reading of weights.

    Over the range as a whole, since the two coefficients trade off against each other and their sum does not.
    """
    points = [float(point.tokens) for point in seen.points if point.tokens >= ridge_tokens(model, roof)]
    if seen.fit is None or len(points) < 2 or not (sharp(seen.fit.per_token) or sharp(seen.fit.per_token2)):
        return []
    low, high = min(points), max(points)
    flops = float(work.prefill(model, high).flops) - float(work.prefill(model, low).flops)
    end, start = prefill_step(seen, high), prefill_step(seen, low)
    time = _difference(end, start)
    if time is None or end.value < 1.2 * start.value:
        return []
    return [ratio("mfu", "slope", roof, high, predicted(flops, "FLOP", f"counted work beyond {low:,.0f} tokens"), time)]


def _decode_slope(model: Model, roof: Roof, seen: DecodeObservation, at: float) -> list[Utilisation]:
    if seen.fit is None or not sharp(seen.fit.per_context_token):
        return []
    kv = predicted(float(work.decode(model, at + 1).kv_bytes) - float(work.decode(model, at).kv_bytes), "B", "KV read")
    return [ratio("mbu", "slope", roof, at, kv, seen.fit.per_context_token)] if kv.value > 0 else []


def sharp(slope: Quantity) -> bool:
    """Whether the interval of ``slope`` is narrow enough to divide by it."""
    low, high = slope.low, slope.high
    return slope.value > 0 and low is not None and high is not None and (high - low) / 2 < _BLUNT * slope.value


def _difference(end: Quantity, start: Quantity) -> Quantity | None:
    low = (end.low or end.value) - (start.high or start.value)
    high = (end.high or end.value) - (start.low or start.value)
    return (
        measured(end.value - start.value, "s", "TTFT from the shortest to the longest prompt", low, high)
        if low > 0
        else None
    )


def ratio(
    yardstick: Literal["mfu", "mbu"],
    method: Literal["whole", "slope"],
    roof: Roof,
    tokens: float,
    done: Quantity,
    time: Quantity,
) -> Utilisation:
    """``done`` over ``time`` over the ceiling of ``roof``; it is as good as the time is (measured, or reported)."""
    ceiling = roof.compute if yardstick == "mfu" else roof.bandwidth
    unit: Literal["FLOP/s", "B/s"] = "FLOP/s" if yardstick == "mfu" else "B/s"
    rate = done.over(time, unit=unit, provenance=time.provenance, source=f"{done.source} over {time.source}")
    # A ceiling is the best of its repeats: the slower ones say nothing of how far the best is off.
    best = msgspec.structs.replace(ceiling, low=None, high=None)
    value = rate.over(best, unit="1", provenance=time.provenance, source=f"{rate.source}, over {ceiling.source}")
    return Utilisation(
        yardstick=yardstick, basis=roof.basis, method=method, tokens=tokens, value=value, ceiling=ceiling
    )
