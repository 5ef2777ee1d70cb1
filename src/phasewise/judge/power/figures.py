"""A phase's figures: energy and watts of its windows, per device and together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from phasewise.judge.power import energy
from phasewise.judge.power.energy import Counter
from phasewise.judge.power.windows import Chosen, Window, inside
from phasewise.observe.telemetry.series import Floats, Series
from phasewise.record.power import DevicePower, PhasePower, PowerPhase
from phasewise.record.quantity import Provenance, Quantity
from phasewise.units import Unit

AGREE = 0.1
"""Counter and readings that differ by more are not both right: then the readings count."""

_NORMAL = 1.96


class Metering(NamedTuple):
    """One device: its readings with watts, its counter, whether the watts are the counter's own, and who says so."""

    series: Series
    counter: Counter | None
    derived: bool
    provenance: Provenance

    @property
    def counted_apart(self) -> bool:
        """Whether counter and readings are two witnesses."""
        return self.counter is not None and not self.derived


class _Energy(NamedTuple):
    """Joules of each window, by what counts, and in all by counter and by readings."""

    windows: Floats
    counted: float | None
    sampled: float | None


def metering(series: Series, provenance: Provenance) -> Metering:
    """``series`` with its counter made to rise, and watts in any case where there are any."""
    counter = energy.counter(series)
    return Metering(energy.watts(series, counter), counter, not series.says("watts"), provenance)


def phase_power(phase: PowerPhase, chosen: Chosen, devices: Sequence[Metering], idle_w: float | None) -> PhasePower:
    """The figures of ``chosen``, of which there is at least one, over ``devices``, each of which covers them."""
    windows = chosen.windows
    lengths = np.array([window.end - window.begin for window in windows])
    each = [_energy(device, windows) for device in devices]
    joules = sum(float(one.windows.sum()) for one in each)
    seconds = float(lengths.sum())
    provenance = devices[0].provenance
    counted, sampled = _sum([one.counted for one in each]), _sum([one.sampled for one in each])
    per = [
        _device(device, windows, float(one.windows.sum()), seconds) for device, one in zip(devices, each, strict=True)
    ]
    tokens = None if any(window.tokens is None for window in windows) else sum(w.tokens or 0 for w in windows)
    how = "energy counter" if counted is not None and math.isclose(counted, joules) else "integral of the readings"
    if counted is not None and devices[0].derived:
        sampled = None
    together = np.sum([one.windows for one in each], axis=0) / lengths
    limits = [_limit(device, windows) for device in devices]
    net = None if idle_w is None else joules - idle_w * seconds

    def quantity(value: float, unit: Unit, source: str) -> Quantity:
        return Quantity(value=value, unit=unit, provenance=provenance, source=source)

    watts = quantity(joules / seconds, "W", f"{how}, over time")
    low, high = _interval(together, watts.value)
    limit = None if any(one is None for one in limits) else sum(one or 0.0 for one in limits)
    return PhasePower(
        phase=phase,
        windows=len(windows),
        requests=sum(window.spans for window in windows),
        seconds=seconds,
        busy=min(1.0, sum(window.busy_s for window in windows) / seconds),
        left_out=chosen.left_out,
        readings=min(len(inside(device.series, windows).time) for device in devices),
        watts=Quantity(value=watts.value, unit="W", provenance=provenance, source=watts.source, low=low, high=high),
        p95=_p95([device.series for device in devices], windows, provenance),
        share=quantity(watts.value / limit, "1", "of the enforced power limit") if limit else None,
        joules=quantity(joules, "J", how),
        counted=None if counted is None else quantity(counted, "J", "energy counter"),
        sampled=None if sampled is None else quantity(sampled, "J", "trapezoid over the readings"),
        differ=counted / sampled - 1 if counted is not None and sampled else None,
        net=None if net is None else quantity(net, "J", f"{how}, idle power taken off"),
        tokens=tokens,
        per_token=quantity(joules / tokens, "J/token", how) if tokens else None,
        net_per_token=quantity(net / tokens, "J/token", f"{how}, idle power taken off")
        if tokens and net is not None
        else None,
        devices=tuple(per),
    )


def _energy(device: Metering, windows: Sequence[Window]) -> _Energy:
    series = device.series
    sampled = [energy.integral(series.time, series.watts, w.begin, w.end) for w in windows]
    counted = [device.counter.between(w.begin, w.end) if device.counter else None for w in windows]
    by_readings, by_counter = _sum(sampled), _sum(counted)
    use = counted if by_counter is not None and _agree(by_counter, by_readings, device.counted_apart) else sampled
    return _Energy(np.array([0.0 if one is None else one for one in use]), by_counter, by_readings)


def _agree(counted: float, sampled: float | None, apart: bool) -> bool:
    return not apart or not sampled or abs(counted / sampled - 1) <= AGREE


def _device(device: Metering, windows: Sequence[Window], joules: float, seconds: float) -> DevicePower:
    within = inside(device.series, windows)
    limit = _limit(device, windows)
    watts = joules / seconds

    def seen(name: str, unit: Unit, how: str) -> Quantity | None:
        column = getattr(within, name)
        column = column[np.isfinite(column)]
        if not len(column):
            return None
        value = float(np.median(column) if how == "median" else np.mean(column) if how == "mean" else np.max(column))
        return Quantity(value=value, unit=unit, provenance=device.provenance, source=f"{how} of the readings")

    return DevicePower(
        watts=Quantity(value=watts, unit="W", provenance=device.provenance, source="energy over time"),
        p95=_p95([device.series], windows, device.provenance),
        share=Quantity(value=watts / limit, unit="1", provenance=device.provenance, source="of its enforced limit")
        if limit
        else None,
        sm_hz=seen("sm_hz", "Hz", "median"),
        memory_hz=seen("memory_hz", "Hz", "median"),
        celsius=seen("celsius", "°C", "highest"),
        utilisation=seen("utilisation", "1", "mean"),
        capped=seen("capped", "1", "mean"),
        hot=seen("hot", "1", "mean"),
        slowed=seen("slowed", "1", "mean"),
    )


def limit_of(series: Series) -> float | None:
    """The enforced limit, median; None when it is not said."""
    said = series.limit_w[np.isfinite(series.limit_w)]
    return float(np.median(said)) if len(said) and np.median(said) > 0 else None


def _limit(device: Metering, windows: Sequence[Window]) -> float | None:
    return limit_of(inside(device.series, windows))


def _p95(series: Sequence[Series], windows: Sequence[Window], provenance: Provenance) -> Quantity | None:
    """Of all devices together, at the times of the first one's readings."""
    at = inside(series[0], windows).time
    if len(at) < 2:
        return None
    together = np.sum([np.interp(at, one.time, one.watts) for one in series], axis=0)
    value = float(np.percentile(together, 95))
    return Quantity(value=value, unit="W", provenance=provenance, source=f"95th percentile of {len(at):,} readings")


def _interval(each: Floats, mean: float) -> tuple[float | None, float | None]:
    """Of the mean over windows, as they scatter; none with fewer than three."""
    if len(each) < 3:
        return None, None
    half = _NORMAL * float(np.std(each, ddof=1)) / math.sqrt(len(each))
    return max(0.0, mean - half), mean + half


def _sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None
