"""The record's section of a trace, filled from its arrays and the split of its steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from types import MappingProxyType

import msgspec
import numpy as np

from phasewise.observe.traces import timeline
from phasewise.observe.traces.busy import devices
from phasewise.observe.traces.events import Copies, LaunchKind, Source, Trace
from phasewise.observe.traces.families import Rule, family_of
from phasewise.observe.traces.health import health
from phasewise.observe.traces.kinds import kinds
from phasewise.observe.traces.laid import lay
from phasewise.observe.traces.pairs import capture_files, lost
from phasewise.observe.traces.speed_of_light import measured_kernels, weighted
from phasewise.observe.traces.split import Split
from phasewise.observe.traces.summed import in_bands, phases, steps
from phasewise.observe.traces.tables import table
from phasewise.observe.traces.untimed import measured_phases, untimed_phases
from phasewise.record.trace import Traced, TraceDevice, TracedPhase, TraceFile, TracePhase, TraceStep

_NO_TIMELINE = "the files hold sums or single kernels and no timeline"
_NO_DEVICE = "the files hold marks and no device activity"
_CUT = "a file breaks off: what comes later in it is missing, so that a phase without steps is unknown, not absent"
_TIMED = (
    "kernel_union_s",
    "gpu_union_s",
    "union_s",
    "span_s",
    "busy_fraction",
    "resident_fraction",
    "median_kernel_s",
    "kernels_per_step",
    "gaps",
    "launches",
    "roles",
    "timeline",
)
"""What nobody can know without a timeline."""


def section(
    trace: Trace,
    split: Split,
    rules: Sequence[Rule],
    *,
    bars: int = 3000,
    assume: Mapping[int, TracePhase] = MappingProxyType({}),
) -> Traced:
    """Whose time a trace was: everything of the record but the verdicts, which judge sets.

    ``rules`` names the families; ``bars`` bounds the picture. ``assume`` is, by rank, the phase of files that have no
    timeline and so no steps (a kernel summary, Nsight Compute); without it NVTX ranges or the files' names say.
    """
    ran = len(trace.kernels.start) + len(trace.replays.start)
    timed = ran > 0 or (len(trace.copies.start) > 0 and not lost(trace))
    whole = trace
    if not timed:
        # Copies alone of a file that lost its kernels tell nothing of how busy a step was.
        trace, split = trace._replace(copies=table(Copies)), split._replace(copy=split.copy[:0])
    laid, kind = lay(trace, split), kinds(trace, rules)
    made, machines = steps(trace, split, laid), devices(trace)
    counted = measured_phases(trace, assume)
    if timed:
        found = phases(trace, split, laid, kind, made)
    else:
        found = _marked(untimed_phases(trace, rules, counted, assume), made)
    picture, note = timeline.bars(trace, split, made, kind, bars)
    outside = laid.kernel_phase < 0
    captures = capture_files(trace, split)
    working = [one for one in machines if one.rank not in captures] or machines
    return Traced(
        files=tuple(_file(source) for source in trace.sources),
        on_cpu=trace.on_cpu,
        phases={name: _with_counters(trace, name, phase, counted) for name, phase in found.items()},
        outside_s=int(laid.duration[outside].sum()) / 1e9,
        outside_kernels=int(np.count_nonzero(outside)),
        steps=made,
        devices=machines,
        kernels_total=len(trace.kernels.start) if timed else sum(phase.kernels for phase in found.values()),
        gpu_sum_s=int(laid.duration.sum()) / 1e9 if timed else sum(phase.gpu_time_s for phase in found.values()),
        kernel_union_s=_sum(working, "kernel_union_s"),
        gpu_union_s=_sum(working, "gpu_union_s"),
        span_s=_sum(working, "span_s"),
        busy_fraction=_over_spans(working, "busy_fraction"),
        resident_fraction=_over_spans(working, "resident_fraction"),
        graph_launches=int(np.count_nonzero(trace.launches.kind == LaunchKind.GRAPH)),
        gpu_graph_replays=len(trace.replays.start),
        measured=measured_kernels(trace, _families(trace, rules), counted),
        health=health(whole, split, made, machines, kind),
        timeline=picture,
        timeline_note=note,
        missing=_missing(trace, found, timed),
        how=" ".join((split.how, f"{_CUT[0].upper()}{_CUT[1:]}.")) if _is_cut(trace) else split.how,
    )


def _marked(found: dict[TracePhase, TracedPhase], made: Sequence[TraceStep]) -> dict[TracePhase, TracedPhase]:
    """Phases of files without device activity, with the steps that marks on the CPU tell."""
    mine = {name: [step for step in made if step.phase == name] for name in found}
    return {
        name: msgspec.structs.replace(phase, steps=len(mine[name]), host_s=in_bands(mine[name]))
        if mine[name]
        else phase
        for name, phase in found.items()
    }


def _with_counters(trace: Trace, name: TracePhase, phase: TracedPhase, counted: Sequence[TracePhase]) -> TracedPhase:
    rows = np.flatnonzero([one == name for one in counted])
    return msgspec.structs.replace(phase, speed_of_light=weighted(trace.measured, rows)) if len(rows) else phase


def _families(trace: Trace, rules: Sequence[Rule]) -> list[str]:
    """The family of each of the trace's names, where a kernel with counters has it."""
    used = np.unique(trace.measured.name).tolist()
    found = [""] * len(trace.names)
    for place, family in zip(used, family_of([trace.names[place] for place in used], rules), strict=True):
        found[place] = family
    return found


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


def _is_cut(trace: Trace) -> bool:
    return any(fault.check == "truncated" for source in trace.sources for fault in source.faults)


def _missing(trace: Trace, found: dict[TracePhase, TracedPhase], timed: bool) -> dict[str, str]:
    why: dict[str, str] = {}
    marked = any(phase.steps for phase in found.values())
    if not timed:
        why |= dict.fromkeys(_TIMED if marked else ("steps", *_TIMED), _NO_DEVICE if marked else _NO_TIMELINE)
    elif trace.on_cpu:
        why["launches"] = "operators on a CPU launch nothing"
    elif not len(trace.launches.start):
        why["launches"] = "the files hold no launch calls"
    if _is_cut(trace):
        why["phases"] = _CUT
    elif timed and not marked:
        why["phases"] = "no step was found"
    if timed and marked and not any(phase.roles for phase in found.values()):
        why["roles"] = "no attention kernel was recognised in layers that repeat"
    if timed and len(trace.totals.name):
        why["sums"] = "kernel summaries are left out beside files with a timeline"
    if len(trace.replays.start):
        why["families"] = "graph replays were recorded as one interval each, so that their kernels are in no family"
    if not len(trace.measured.name):
        why["speed_of_light"] = "not measured: the files hold no hardware counters"
    return why
