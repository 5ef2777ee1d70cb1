"""Speed Of Light: how near kernels come to the machine's sustained peaks, and NVIDIA's own rule on what bounds them.

The rule is SOLBottleneck of the section files that ship with Nsight Compute: latency when both sides are under 60%,
else the larger side; over 80% the throughput is high; under one wave the grid is too small to fill the device.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from phasewise.observe.traces.events import NOT_SAID, Floats, Measured, Trace
from phasewise.record.trace import MeasuredKernel, SpeedOfLight, TracePhase

Rule = Literal["compute", "memory", "latency", "not measured"]

LATENCY, HIGH = 60.0, 80.0
"""Percent of the sustained peak."""


def rule(compute: float, memory: float, waves: float = math.nan) -> tuple[Rule, tuple[str, ...]]:
    """What bounds a kernel, and what is worth saying; percentages, and NaN for what was not collected.

    >>> rule(9.2, 19.7, 0.7)
    ('latency', ('small grid',))
    """
    notes = ("small grid",) if waves < 1 else ()
    if math.isnan(compute) or math.isnan(memory):
        return "not measured", notes
    if max(compute, memory) < LATENCY:
        return "latency", notes
    if max(compute, memory) > HIGH:
        notes = ("high throughput", *notes)
    return "compute" if compute > memory else "memory", notes


def weighted(measured: Measured, rows: NDArray[np.generic]) -> SpeedOfLight:
    """The chosen rows (a mask or indices) as one, each weighted by its time.

    Compute and memory are compared over the same kernels: those with both, when there are any.
    """
    duration, compute, memory, dram = (
        column[rows] for column in (measured.duration, measured.compute, measured.memory, measured.dram)
    )
    timed = np.isfinite(duration) & (duration > 0)
    both = timed & np.isfinite(compute) & np.isfinite(memory)
    counted = both if both.any() else timed & (np.isfinite(compute) | np.isfinite(memory) | np.isfinite(dram))
    means = [_mean(column, duration, counted) for column in (compute, memory, dram)]
    moved = counted & np.isfinite(bytes_ := measured.dram_bytes[rows])
    found, _ = rule(*(math.nan if mean is None else mean for mean in means[:2]))
    return SpeedOfLight(
        compute=means[0],
        memory=means[1],
        dram=means[2],
        kernels=int(counted.sum()),
        duration_s=float(duration[counted].sum()) * 1e-9,
        rule=found,
        dram_bandwidth=float(bytes_[moved].sum() / duration[moved].sum() * 1e9) if moved.any() else None,
        occupancy=_mean(measured.warps[rows], duration, counted),
        sm_clock=_mean(measured.sm_clock[rows], duration, counted),
    )


def _mean(column: Floats, weight: Floats, chosen: NDArray[np.bool_]) -> float | None:
    chosen = chosen & np.isfinite(column)
    return float(np.average(column[chosen], weights=weight[chosen])) if chosen.any() else None


def measured_kernels(
    trace: Trace, family_of_name: Sequence[str], phases: Sequence[TracePhase]
) -> tuple[MeasuredKernel, ...]:
    """Every kernel with counters, in the order in which they ran.

    ``family_of_name`` gives the family of each of `Trace.names`, ``phases`` the phase of each row of `Trace.measured`.
    """
    rows = trace.measured
    made = []
    for row, phase in enumerate(phases):
        compute, memory, waves = (float(column[row]) for column in (rows.compute, rows.memory, rows.waves))
        found, notes = rule(compute, memory, waves)
        name, device = int(rows.name[row]), int(rows.device[row])
        duration = _said(rows.duration[row])
        made.append(
            MeasuredKernel(
                name=trace.names[name],
                family=family_of_name[name],
                device=trace.names[device] if device != NOT_SAID else "",
                phase=phase,
                duration_s=None if duration is None else duration * 1e-9,
                compute=_said(compute),
                memory=_said(memory),
                dram=_said(rows.dram[row]),
                waves=_said(waves),
                rule=found,
                notes=notes,
                dram_bytes=_said(rows.dram_bytes[row]),
                occupancy=_said(rows.warps[row]),
                sm_clock=_said(rows.sm_clock[row]),
            )
        )
    return tuple(made)


def _said(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
