"""A phase's figures: energy and watts of its windows, per device and together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from phasewise.judge.power import energy
from phasewise.judge.power.energy import Counter
from phasewise.judge.power.windows import Chosen, Window, covers, inside
from phasewise.observe.telemetry.series import Floats, Series
from phasewise.record.power import DevicePower, PhasePower, PowerPhase
from phasewise.record.quantity import Provenance, Quantity
from phasewise.units import Unit

AGREE = 0.1
"""Counter and readings that differ by more are not both right: then the readings count ..."""

_NOISE = 3.0
"""... unless it is within this many standard errors of the mean of so few readings, of watts that jump so much."""

_NORMAL = 1.96


class Joules(NamedTuple):
    """Energy of one window by its two witnesses; None where one cannot tell."""

    counted: float | None
    sampled: float | None


class Metering(NamedTuple):
    """One device: its readings with watts, its counter, whether the watts are the counter's own, and who says so."""

    series: Series
    counter: Counter | None
    derived: bool
    provenance: Provenance

    @property
    def averages_s(self) -> float:
        """What each of its watts is a mean of."""
        return 0.0 if self.derived else self.series.device.averages_s

    def joules(self, window: Window) -> Joules:
        """Its energy in a window; watts that are a mean of a while count from that long after its begin on."""
        begin, end, series = window.begin + self.averages_s, window.end, self.series
        length = window.end - window.begin
        sampled = energy.integral(series.time, series.watts, begin, end) if covers(series, begin, end) else None
        return Joules(
            self.counter.between(window.begin, window.end) if self.counter else None,
            None if sampled is None else sampled * length / (end - begin),
        )

    def measures(self, window: Window) -> bool:
        """Whether either witness tells the energy of a window."""
        return self.joules(window) != Joules(None, None)


class _Energy(NamedTuple):
    """Joules of each window, by what counts; in all by counter and by readings; of the windows that both tell; and
    whether they agree there."""

    windows: Floats
    counted: float | None
    sampled: float | None
    both: tuple[float, float]
    agree: bool


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
        p95=_p95(devices, windows, provenance),
        share=quantity(watts.value / limit, "1", "of the enforced power limit") if limit else None,
        joules=quantity(joules, "J", how),
        counted=None if counted is None else quantity(counted, "J", "energy counter"),
        sampled=None if sampled is None else quantity(sampled, "J", "trapezoid over the readings"),
        differ=_differ(each),
        doubted=not all(one.agree for one in each),
        net=None if net is None else quantity(net, "J", f"{how}, idle power taken off"),
        tokens=tokens,
        per_token=quantity(joules / tokens, "J/token", how) if tokens else None,
        net_per_token=quantity(net / tokens, "J/token", f"{how}, idle power taken off")
        if tokens and net is not None
        else None,
        devices=tuple(per),
    )


def _differ(each: Sequence[_Energy]) -> float | None:
    """Counted over sampled, less 1, where both tell."""
    counted, sampled = sum(one.both[0] for one in each), sum(one.both[1] for one in each)
    return counted / sampled - 1 if sampled > 0 else None


def _energy(device: Metering, windows: Sequence[Window]) -> _Energy:
    found = [device.joules(window) for window in windows]
    pairs = [(c, r) for c, r in found if c is not None and r is not None]
    both = sum(c for c, _ in pairs), sum(r for _, r in pairs)
    apart = abs(both[0] / both[1] - 1) if both[1] > 0 and not device.derived else 0.0
    agree = apart <= max(AGREE, _NOISE * _error(device, windows))
    order = [(c, r) if agree else (r, c) for c, r in found]
    use = [first if first is not None else second for first, second in order]
    return _Energy(
        np.array([0.0 if one is None else one for one in use]),
        _sum([one.counted for one in found]),
        None if device.derived else _sum([one.sampled for one in found]),
        (0.0, 0.0) if device.derived else both,
        agree,
    )


def _error(device: Metering, windows: Sequence[Window]) -> float:
    """Standard error of the mean of its readings in the windows, over that mean."""
    drawn = inside(device.series, windows).watts
    drawn = drawn[np.isfinite(drawn)]
    mean = float(np.mean(drawn)) if len(drawn) > 1 else 0.0
    return float(np.std(drawn, ddof=1)) / math.sqrt(len(drawn)) / mean if mean > 0 else 0.0


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
        p95=_p95([device], windows, device.provenance),
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


def _p95(devices: Sequence[Metering], windows: Sequence[Window], provenance: Provenance) -> Quantity | None:
    """Of all devices together, at the times of the first one's readings."""
    at = inside(devices[0].series, windows, max(device.averages_s for device in devices)).time
    if len(at) < 2:
        return None
    together = np.sum([np.interp(at, one.series.time, one.series.watts) for one in devices], axis=0)
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
