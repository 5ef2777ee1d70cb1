"""The record's section of a trace, filled from its arrays and the split of its steps."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

import numpy as np

from phasewise.observe.traces import timeline
from phasewise.observe.traces.busy import devices
from phasewise.observe.traces.events import LaunchKind, Source, Trace
from phasewise.observe.traces.families import Rule
from phasewise.observe.traces.health import health
from phasewise.observe.traces.kinds import kinds
from phasewise.observe.traces.laid import lay
from phasewise.observe.traces.split import Split
from phasewise.observe.traces.summed import phases, steps
from phasewise.observe.traces.untimed import summed_phases
from phasewise.record.trace import Traced, TraceDevice, TracedPhase, TraceFile, TracePhase

_NO_TIMELINE = "the files hold sums or single kernels and no timeline"


def section(
    trace: Trace, split: Split, rules: Sequence[Rule], *, bars: int = 3000, assume: TracePhase | None = None
) -> Traced:
    """Whose time a trace was: everything of the record but the verdicts, which judge sets.

    ``rules`` names the families; ``bars`` bounds the picture. ``assume`` is the phase of files that have no timeline,
    so no steps (a kernel summary, Nsight Compute); without it their names, or NVTX ranges, say.
    """
    timed = len(trace.kernels.start) + len(trace.replays.start) + len(trace.copies.start) > 0
    laid, kind = lay(trace, split), kinds(trace, rules)
    made, machines = steps(trace, split, laid), devices(trace)
    found = phases(trace, split, laid, kind, made) if timed else summed_phases(trace, rules, assume)
    picture, note = timeline.bars(trace, split, made, kind, bars)
    outside = laid.kernel_phase < 0
    return Traced(
        files=tuple(_file(source) for source in trace.sources),
        on_cpu=trace.on_cpu,
        phases=found,
        outside_s=int(laid.duration[outside].sum()) / 1e9,
        outside_kernels=int(np.count_nonzero(outside)),
        steps=made,
        devices=machines,
        kernels_total=len(trace.kernels.start) + int(trace.totals.instances.sum()),
        gpu_sum_s=(int(laid.duration.sum()) + int(trace.totals.total.sum())) / 1e9,
        kernel_union_s=_sum(machines, "kernel_union_s"),
        gpu_union_s=_sum(machines, "gpu_union_s"),
        span_s=_sum(machines, "span_s"),
        busy_fraction=_over_spans(machines, "busy_fraction"),
        resident_fraction=_over_spans(machines, "resident_fraction"),
        graph_launches=int(np.count_nonzero(trace.launches.kind == LaunchKind.GRAPH)),
        gpu_graph_replays=len(trace.replays.start),
        health=health(trace, split, made, machines),
        timeline=picture,
        timeline_note=note,
        missing=_missing(trace, found, timed),
    )


def _file(source: Source) -> TraceFile:
    return TraceFile(
        name=PurePath(source.path).name,
        form=source.form,
        rank=source.rank if source.rank >= 0 else None,
        world=source.world or None,
        engine=source.engine,
        graph_mode=source.graph_mode,
        devices=tuple(device.name for device in source.devices),
    )


def _sum(machines: Sequence[TraceDevice], what: str) -> float | None:
    return sum(getattr(one, what) for one in machines) if machines else None


def _over_spans(machines: Sequence[TraceDevice], what: str) -> float | None:
    """The mean fraction of all devices, each by its span."""
    span = sum(one.span_s for one in machines)
    return sum(getattr(one, what) * one.span_s for one in machines) / span if span else None


def _missing(trace: Trace, found: dict[TracePhase, TracedPhase], timed: bool) -> dict[str, str]:
    why: dict[str, str] = {}
    if not timed:
        for part in ("steps", "union_s", "span_s", "busy_fraction", "resident_fraction", "gaps", "roles", "timeline"):
            why[part] = _NO_TIMELINE
        why["launches"] = _NO_TIMELINE
    elif trace.on_cpu:
        why["launches"] = "operators on a CPU launch nothing"
    elif not len(trace.launches.start):
        why["launches"] = "the files hold no launch calls"
    if timed and not any(phase.steps for phase in found.values()):
        why["phases"] = "no step was found"
    elif timed and not any(phase.roles for phase in found.values()):
        why["roles"] = "no attention kernel was recognised in layers that repeat"
    if len(trace.replays.start):
        why["families"] = "graph replays were recorded as one interval each, so that their kernels are in no family"
    if not len(trace.measured.name):
        why["speed_of_light"] = "not measured: the files hold no hardware counters"
    return why
