"""What voids figures of power, or casts doubt on them: throttling, drifting clocks, counters that disagree, spins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import numpy as np

from phasewise.judge.power.figures import AGREE, Metering, limit_of
from phasewise.judge.power.windows import Window, inside
from phasewise.record.observation import Check, CheckStatus
from phasewise.record.power import PhasePower, PowerPhase
from phasewise.units import show

CheckPhase = Literal["prefill", "decode", "run"]

HELD = 0.05
"""Part of the time from which on the power limit is said to have held the clock."""

_THROTTLED = 0.01
_DRIFT = 0.03
"""Clocks step by 15 MHz (0.8% of 1,980 MHz); a step or two is no drift."""

_OVER = 1.25
"""Of the limit, over a whole phase: bursts go some 10% over it for tens of milliseconds."""

_LOCKED = 0.97
_SPUN, _SPUN_S, _LOW = 0.9, 0.5, 0.5
_LAG_S = 1.0
"""Utilisation is of up to the last second."""


def phase_checks(figures: PhasePower, windows: Sequence[Window], devices: Sequence[Metering]) -> Iterator[Check]:
    """The checks of one phase."""
    phase = _checked(figures.phase)
    yield _throttling(figures, devices, phase)
    yield _cap(figures, devices, phase)
    if over := _over(figures, devices):
        yield _check("over_limit", phase, "failed", over, voids=True)
    yield _drift(figures, windows, devices, phase)
    locked = _locked(figures, devices)
    if locked:
        yield Check(name="full_clock", phase=phase, status="failed", detail=locked)


def run_checks(
    phases: Mapping[PowerPhase, PhasePower], devices: Sequence[Metering], busy: Sequence[tuple[float, float]]
) -> Iterator[Check]:
    """The checks that speak of the whole run; ``busy`` is when any request ran."""
    yield from _counters(phases, devices)
    spun = [*_waiting(devices, busy), *_straggling(phases, devices)]
    if spun:
        yield Check(name="spin_waiting", phase="run", status="failed", detail="; ".join(spun))


def _throttling(figures: PhasePower, devices: Sequence[Metering], phase: str) -> Check:
    """Heat or the board held clocks down: a machine that does so is slower than the one that was meant."""
    worst, known = [], False
    for device, one in zip(figures.devices, devices, strict=True):
        for name, what in (("hot", "heat"), ("slowed", "the board (power brake or hardware slowdown)")):
            value = getattr(device, name)
            known = known or value is not None
            if value is not None and value.value > _THROTTLED:
                worst.append(f"{what} slowed {_called(one)} for {_percent(value.value)} of {figures.phase}")
    if worst:
        text = f"{' and '.join(worst)}: no comparison with another run holds"
        return _check("throttling", phase, "failed", text, voids=True)
    if not known:
        return _check("throttling", phase, "not_checked", "the readings hold no throttle reasons")
    return _check("throttling", phase, "passed", f"neither heat nor the board slowed {figures.phase}")


def _cap(figures: PhasePower, devices: Sequence[Metering], phase: str) -> Check:
    known = [(d, one) for d, one in zip(figures.devices, devices, strict=True) if d.capped is not None]
    if not known:
        return _check("power_cap", phase, "not_checked", "the readings do not say whether the limit held clocks down")
    device, one = max(known, key=lambda pair: pair[0].capped.value if pair[0].capped else 0.0)
    part = device.capped.value if device.capped else 0.0
    if part <= HELD:
        return _check("power_cap", phase, "passed", f"the power limit held no clock down in {figures.phase}")
    clock = f", at {_clock(device.sm_hz.value)}" if device.sm_hz else ""
    text = (
        f"the power limit held the clock of {_called(one)} down for {_percent(part)} of {figures.phase}{clock}: "
        "compare with runs under the same limit only"
    )
    return _check("power_cap", phase, "failed", text)


def _over(figures: PhasePower, devices: Sequence[Metering]) -> str:
    """A mean that no card under its limit draws; CPUs may, for their limit is of a longer time."""
    for device, one in zip(figures.devices, devices, strict=True):
        if device.share is not None and device.share.value > _OVER and one.series.device.kind == "gpu":
            return (
                f"{_called(one)} would draw {_percent(device.share.value)} of its enforced limit in {figures.phase}, "
                "which none does: the limit is another card's or another time's (--limit), or the watts are damaged"
            )
    return ""


def _drift(figures: PhasePower, windows: Sequence[Window], devices: Sequence[Metering], phase: str) -> Check:
    """The clock at the end of the phase against its beginning; under a cap it moves, and the cap is to blame."""
    found = []
    for device, one in zip(figures.devices, devices, strict=True):
        clocks = inside(one.series, windows).sm_hz
        clocks = clocks[np.isfinite(clocks)]
        if len(clocks) < 9:
            continue
        third = len(clocks) // 3
        first, last = float(np.median(clocks[:third])), float(np.median(clocks[-third:]))
        capped = device.capped is not None and device.capped.value > HELD
        found.append((abs(last / first - 1) if first > 0 else 0.0, first, last, capped, one))
    if not found:
        return _check("clock_drift", phase, "not_checked", "too few readings hold the clock of the multiprocessors")
    size, first, last, capped, one = max(found, key=lambda drift: drift[0])
    if size <= _DRIFT:
        return _check("clock_drift", phase, "passed", f"{_clock(first)} at first and {_clock(last)} at last")
    cause = ", under the power limit" if capped else ""
    text = (
        f"the clock of {_called(one)} went from {_clock(first)} to {_clock(last)} in {figures.phase}{cause}: its first "
        "and its last figures are of different machines"
    )
    return _check("clock_drift", phase, "failed", text, voids=not capped)


def _locked(figures: PhasePower, devices: Sequence[Metering]) -> str:
    for device, one in zip(figures.devices, devices, strict=True):
        highest = one.series.device.highest_sm_hz
        if device.sm_hz is None or not highest or device.sm_hz.value >= _LOCKED * highest:
            continue
        reasons = (device.capped, device.hot, device.slowed)
        if any(reason is not None and reason.value > _THROTTLED for reason in reasons):
            continue
        return (
            f"{_called(one)} ran at {_clock(device.sm_hz.value)} of {_clock(highest)} in {figures.phase} and nothing "
            "throttled it: its clocks are locked or did not come up; compare with runs at the same clock only"
        )
    return ""


def _counters(phases: Mapping[PowerPhase, PhasePower], devices: Sequence[Metering]) -> Iterator[Check]:
    """Counter against readings, and what was seen of the counters."""
    seen = [f"{_called(one)}: wrapped {one.counter.wraps}×" for one in devices if one.counter and one.counter.wraps]
    reset = [_called(one) for one in devices if one.counter and one.counter.resets]
    differ = {phase: figures.differ for phase, figures in phases.items() if figures.differ is not None}
    about = ", ".join(f"{phase} {100 * value:+.1f}%" for phase, value in differ.items())
    if reset:
        text = (
            f"the energy counter of {' and '.join(reset)} was set back on the way: windows over it are of the readings"
        )
        yield _check("energy_counter", "run", "failed", text)
    elif any(figures.doubted for figures in phases.values()):
        text = f"energy counter against readings: {about}: more than {_percent(AGREE)} apart, so the readings count"
        yield _check("energy_counter", "run", "failed", text)
    elif differ:
        yield _check("energy_counter", "run", "passed", "; ".join([f"energy counter against readings: {about}", *seen]))
    elif any(one.derived for one in devices):
        text = "; ".join(["there is only a counter: its watts are its own steps, and nothing else was read", *seen])
        yield _check("energy_counter", "run", "not_checked", text)
    else:
        yield _check("energy_counter", "run", "not_checked", "there is no energy counter: energy is of the readings")


def _waiting(devices: Sequence[Metering], busy: Sequence[tuple[float, float]]) -> Iterator[str]:
    """Devices that are 100% utilised at low power while no request ran, from right before the first of them on."""
    first = min(begin for begin, _ in busy)
    for one in devices:
        series = one.series
        apart = series.time >= first - _LAG_S
        for begin, end in busy:
            apart &= (series.time < begin) | (series.time > end + _LAG_S)
        full = apart & (series.utilisation >= _SPUN)
        seconds = float(full.sum()) * series.every_s if full.any() else 0.0
        if seconds < _SPUN_S:
            continue
        watts, limit = float(np.median(series.watts[full])), limit_of(series)
        if limit and watts > _LOW * limit:
            continue
        share = f" ({_percent(watts / limit)} of its limit)" if limit else ""
        yield (
            f"{_called(one)} showed 100% utilisation for {seconds:.1f} s in which no request ran, at {show(watts, 'W')}"
            f"{share}: a kernel that waits, as a collective does that spins, counts as busy"
        )


def _straggling(phases: Mapping[PowerPhase, PhasePower], devices: Sequence[Metering]) -> Iterator[str]:
    """Devices that are as utilised as the others and draw far less: they wait for them."""
    for phase, figures in phases.items():
        drawn = [device.watts.value for device in figures.devices]
        if len(drawn) < 2:
            continue
        usual = float(np.median(drawn))
        for device, one in zip(figures.devices, devices, strict=True):
            busy = device.utilisation.value if device.utilisation else 0.0
            if busy >= _SPUN and device.watts.value < _LOW * usual:
                yield (
                    f"in {phase} {_called(one)} shows {_percent(busy)} utilisation at {show(device.watts.value, 'W')}, "
                    f"the others at {show(usual, 'W')}: it waits in a collective"
                )


def _check(name: str, phase: str, status: CheckStatus, detail: str, *, voids: bool = False) -> Check:
    return Check(name=name, phase=_checked(phase), status=status, detail=f"{detail}.", voids=voids)


def _checked(phase: str) -> CheckPhase:
    return "prefill" if phase == "prefill" else "decode" if phase == "decode" else "run"


def _called(one: Metering) -> str:
    device = one.series.device
    return f"GPU {device.index}" if device.kind == "gpu" else device.name


def _clock(hertz: float) -> str:
    return f"{hertz / 1e6:,.0f} MHz"


def _percent(part: float) -> str:
    return f"{100 * part:.0f}%" if part >= 0.1 or part == 0 else f"{100 * part:.1f}%"
