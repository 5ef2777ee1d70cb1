"""Telemetry files that are joined to nothing: what each holds, and whether they compare."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from phasewise.judge.power.power import Joined, judge
from phasewise.judge.power.windows import Span
from phasewise.observe.telemetry.series import Series
from phasewise.record.observation import Check
from phasewise.record.power import Idle, Power, Recording, Recordings

BUSY = 0.5
"""Utilisation from which on a row counts as busy."""

_APART = 0.03
"""Clocks step by 15 MHz: a step or two is no difference."""

BOUNDARY = "Nothing says what ran: `all` is the whole file, `busy` its rows with a utilisation of 50% or more."


def recording(name: str, form: str, series: Sequence[Series]) -> Recording:
    """What one file holds. Its times are its own."""
    begin = max(float(one.time[0]) for one in series)
    end = min(float(one.time[-1]) for one in series)
    if end <= begin or min(len(one.time) for one in series) < 2:
        missing = {"all": "there is one row of a device, or its devices were read at different times"}
        return Recording(name=name, form=form, power=Power(missing=missing))
    spans = [Span("all", begin, end, None), *_busy(series, begin, end)]
    joined = Joined(spans=tuple(spans), busy=((begin, end),), boundary=BOUNDARY)
    power = judge(series, joined, provenance="reported", how=f"{form}, {name}.", files=[name] * len(series), every=True)
    # Where nothing says what ran, nothing says when nothing did.
    return Recording(name=name, form=form, power=msgspec.structs.replace(power, idle=Idle()))


def beside(files: Sequence[Recording]) -> Recordings:
    """The files side by side: watts and times compare only at one clock."""
    clocks = {
        f"{one.name}, GPU {device.index}" if len(one.power.devices) > 1 else one.name: figures.sm_hz.value
        for one in files
        for phase in ("busy" if "busy" in one.power.phases else "all",)
        if phase in one.power.phases
        for device, figures in zip(one.power.devices, one.power.phases[phase].devices, strict=True)
        if figures.sm_hz is not None
    }
    if len(clocks) < 2:
        return Recordings(files=tuple(files), checks=())
    usual = float(np.median(list(clocks.values())))
    apart = {name: clock for name, clock in clocks.items() if abs(clock / usual - 1) > _APART}
    if not apart:
        detail = f"all ran within {100 * _APART:.0f}% of {usual / 1e6:,.0f} MHz."
        return Recordings(files=tuple(files), checks=(_same("passed", detail),))
    named = ", ".join(
        f"{name} at {clock / 1e6:,.0f} MHz ({100 * (clock / usual - 1):+.0f}%)" for name, clock in apart.items()
    )
    detail = (
        f"{named}, the usual clock being {usual / 1e6:,.0f} MHz: its watts and times do not compare with the others'."
    )
    return Recordings(files=tuple(files), checks=(_same("failed", detail),))


def _same(status: str, detail: str) -> Check:
    return Check(
        name="same_clock", phase="run", status="failed" if status == "failed" else "passed", detail=detail, voids=True
    )


def _busy(series: Sequence[Series], begin: float, end: float) -> list[Span]:
    """Stretches in which any device is busy, from the first such row to the one after the last."""
    time = series[0].time
    busy = np.zeros(len(time), dtype=bool)
    for one in series:
        if one.says("utilisation"):
            busy |= np.interp(time, one.time, np.nan_to_num(one.utilisation)) >= BUSY
    edges = np.flatnonzero(np.diff(np.concatenate(([False], busy, [False])).astype(int)))
    found = []
    for first, after in zip(edges[::2], edges[1::2], strict=True):
        since, until = max(begin, float(time[first])), min(end, float(time[min(after, len(time) - 1)]))
        if until > since:
            found.append(Span("busy", since, until, None))
    return found
