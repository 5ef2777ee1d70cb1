"""Points to a calibration."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec
import numpy as np

from phasewise.errors import UsageError
from phasewise.judge.calibrate import limits
from phasewise.judge.calibrate.fit import Fit, fit
from phasewise.judge.calibrate.interval import FEWEST, WITHIN_80, HeldOut, hold_out
from phasewise.model.model import Model
from phasewise.model.passes import Pass
from phasewise.predict.efficiency import NAMES, Array, Load, from_free, load, stack
from phasewise.predict.parallel.layout import Layout
from phasewise.predict.parallel.link import Link
from phasewise.predict.parallel.spread import Spread
from phasewise.predict.priors import Prior
from phasewise.predict.roofline import Roof, roofs
from phasewise.record.calibration import Calibration, PhaseScore, Point, Scored
from phasewise.record.machine import Machine
from phasewise.record.observation import Phase
from phasewise.record.quantity import Quantity

PHASES: tuple[Phase, Phase] = ("prefill", "decode")
"""In the order in which a request meets them."""

MOST_FOLDS = 60
"""Up to so many points each is left out alone; of more, each sixtieth part together."""

_NARROWED = 0.7
"""A parameter whose spread has shrunk to less of its prior's was measured; else it is still assumed."""


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """What the points were measured on, and what is assumed of it before."""

    name: str
    engine: str
    model: Model
    machine: Machine
    link: Link | None
    prior: Prior


def calibrate(subject: Subject, points: Sequence[Point], about: Sequence[str] = ()) -> Calibration:
    """Fit ``points``, one for each setting; ``about`` are notes to keep with it.

    Raises:
        UsageError: too few points, or a machine without a known rate for the model's dtype.
        ImpossibleMeasurement: a point is faster than its floor.
    """
    limits.enough(points)
    together = stack([point_load(subject, point) for point in points])
    limits.possible(points, together.floor)
    seconds = np.array([point.seconds for point in points])
    found = fit(together.under, seconds, subject.prior)
    held = hold_out(together.under, seconds, subject.prior, np.arange(len(points)) % MOST_FOLDS)
    scored = _scored(points, together.floor, together.under(found.efficiency), held)
    roof = roof_of(subject.model, subject.machine)
    return Calibration(
        name=subject.name,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        engine=subject.engine,
        model=subject.model.name,
        machine=subject.machine.name,
        weights=subject.model.weights_format,
        kv=subject.model.kv_format,
        basis=roof.basis,
        dtype=roof.dtype,
        peak_flops=roof.compute.value,
        bandwidth=roof.bandwidth.value,
        link_rate=subject.link.rate.value if subject.link else None,
        assumed_from=subject.prior.about,
        parameters=_parameters(found, subject.prior),
        scatter=found.scatter,
        folds=tuple({name: getattr(one, name) for name in NAMES} for one in held.fits),
        points=scored,
        scores=tuple(_score(phase, some) for phase in PHASES if (some := _of(phase, scored))),
        notes=(*about, *limits.notes(points, together.floor)),
    )


def point_load(subject: Subject, point: Point) -> Load:
    """The load of one device in the step of ``point``."""
    one = Pass(point.tokens, point.context, point.batch, decode=point.phase == "decode")
    under = roof_of(subject.model, subject.machine)
    return load(Spread(subject.model, Layout(tp=point.devices), under, subject.link), one)


def roof_of(model: Model, machine: Machine) -> Roof:
    """The ceilings of one device of ``machine``, on its most trusted basis.

    Raises:
        UsageError: no rate is known for the dtype that the model computes in.
    """
    found = roofs(model, msgspec.structs.replace(machine, devices=1))
    if not found:
        dtypes = " or ".join(model.compute)
        raise UsageError(f"{machine.name} has no known rate for {dtypes}: give --peak and --bandwidth.")
    return found[0]


def _scored(points: Sequence[Point], least: Array, fitted: Array, held: HeldOut) -> tuple[Scored, ...]:
    without = np.array([point.seconds for point in points]) / np.exp(held.misses)
    return tuple(
        Scored(point=point, floor_s=float(a), fitted_s=float(b), held_out_s=float(c), fold=int(fold))
        for point, a, b, c, fold in zip(points, least, fitted, without, held.fold, strict=True)
    )


def _of(phase: Phase, scored: Sequence[Scored]) -> list[Scored]:
    return [one for one in scored if one.point.phase == phase]


def _score(phase: Phase, scored: Sequence[Scored]) -> PhaseScore:
    measured = np.array([one.point.seconds for one in scored])
    plain = np.abs(np.array([one.floor_s for one in scored]) / measured - 1)
    held_out = np.abs(np.array([one.held_out_s for one in scored]) / measured - 1)
    return PhaseScore(
        phase=phase,
        points=len(scored),
        plain_mean=float(plain.mean()),
        plain_median=float(np.median(plain)),
        held_out_mean=float(held_out.mean()),
        held_out_median=float(np.median(held_out)),
        interval=len(scored) >= FEWEST,
    )


def _parameters(found: Fit, prior: Prior) -> dict[str, Quantity]:
    middle = found.efficiency.free()
    low, high = (from_free(middle + sign * WITHIN_80 * found.spread) for sign in (-1, 1))
    narrowed = found.spread < _NARROWED * prior.spread
    return {
        name: Quantity(
            value=getattr(found.efficiency, name),
            low=getattr(low, name),
            high=getattr(high, name),
            unit="s" if name.endswith("_s") else "1",
            provenance="measured" if known else "assumed",
            source="fit of the points" if known else prior.sources[name],
        )
        for name, known in zip(NAMES, narrowed, strict=True)
    }
