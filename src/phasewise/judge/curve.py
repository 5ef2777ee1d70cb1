"""Fit and floor of a phase over the lengths or contexts that were measured, for tables and charts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from phasewise.judge.case import Case
from phasewise.model.architecture import Count
from phasewise.model.model import Model
from phasewise.predict.roofline import Roof, decode_floor, prefill_floor
from phasewise.record.judgement import CurvePoint
from phasewise.record.observation import DecodeObservation, PrefillObservation

BETWEEN = 24
"""Points laid evenly over the measured range, besides those measured: enough for the bend at the ridge to show."""


def of_prefill(case: Case, seen: PrefillObservation) -> tuple[CurvePoint, ...]:
    """TTFT over prompt length."""
    floor = _bound(case, prefill_floor)
    return _curve([float(point.tokens) for point in seen.points], seen.fit.at if seen.fit else None, floor)


def of_decode(case: Case, seen: DecodeObservation) -> tuple[CurvePoint, ...]:
    """Step time over context."""
    floor = _bound(case, decode_floor)
    return _curve([point.context for point in seen.points], seen.fit.at if seen.fit else None, floor)


def _bound(case: Case, floor: Callable[[Model, Roof, Count], Count]) -> Callable[[float], float] | None:
    if case.ground is None:
        return None
    model, roof = case.ground
    return lambda tokens: float(floor(model, roof, tokens))


def _curve(
    measured: Sequence[float], fit: Callable[[float], float] | None, floor: Callable[[float], float] | None
) -> tuple[CurvePoint, ...]:
    if not measured:
        return ()
    low, high = min(measured), max(measured)
    laid = {low + (high - low) * step / BETWEEN for step in range(BETWEEN + 1)}
    return tuple(
        CurvePoint(tokens=x, fit_s=fit(x) if fit else None, floor_s=floor(x) if floor else None)
        for x in sorted({*measured, *laid})
    )
