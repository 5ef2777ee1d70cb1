"""What would make a trace's figures wrong, looked for before any figure is believed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from phasewise.observe.traces.events import Trace
from phasewise.observe.traces.kinds import Kinds
from phasewise.observe.traces.lengths import absurd, running
from phasewise.observe.traces.pairs import EDGE, capture_files, lost, paired
from phasewise.observe.traces.split import Split
from phasewise.observe.traces.together import together
from phasewise.observe.traces.verdicts import counted, judged, unchecked
from phasewise.record.observation import CheckStatus
from phasewise.record.trace import Health, TraceDevice, TraceStep
from phasewise.units import show

_FAULTS = ("truncated", "damaged", "encoding", "missing", "times")
_RANK: dict[CheckStatus, int] = {"failed": 0, "not_checked": 1, "passed": 2}


def health(
    trace: Trace, split: Split, steps: Sequence[TraceStep], devices: Sequence[TraceDevice], kind: Kinds
) -> tuple[Health, ...]:
    """Every check, the failed ones first, then what was not checked."""
    made = [
        *_files(trace),
        _ranks(trace, capture_files(trace, split)),
        *paired(trace, split),
        *_activity(trace, split),
        _graphs(trace),
        _durations(trace),
        _strays(trace, split),
        *absurd(trace),
        _streams(trace, devices),
        _names(trace, devices),
        _counters(trace),
        *_marks(split),
        *together(trace, split, steps, kind),
    ]
    return tuple(sorted(made, key=lambda one: _RANK[one.status]))


def _files(trace: Trace) -> Iterator[Health]:
    faults = [(source, fault) for source in trace.sources for fault in source.faults]
    for check in _FAULTS:
        for source, fault in faults:
            if fault.check == check:
                yield Health(check=check, status="failed", detail=f"{source.path}: {fault.detail}")
    if not faults:
        yield Health(check="whole files", status="passed", detail="every file was read to its end")


def _activity(trace: Trace, split: Split) -> Iterator[Health]:
    """Files with their host side alone: cut before the kernels, or the profiler was not told to trace the device."""
    for rank in lost(trace):
        source = trace.sources[rank]
        cut = any(fault.check == "truncated" for fault in source.faults)
        marked = sum(step.rank == rank for step in split.steps)
        held = (
            f"{counted(marked, 'step')} and no kernel: only their time on the CPU is known" if marked else "no kernel"
        )
        what = "kernels" if (trace.copies.rank == rank).any() else "device activity"
        cure = (
            "the file breaks off, its kernels come later in it and are missing: copy or record it again"
            if cut
            else "record the device too (nsys profile -t cuda,nvtx; ProfilerActivity.CUDA)"
        )
        yield Health(
            check="device activity",
            status="failed",
            detail=f"{source.path}: this file holds no {what} ({held}); {cure}",
        )


def _ranks(trace: Trace, captures: set[int]) -> Health:
    sources = [source for place, source in enumerate(trace.sources) if place not in captures] or trace.sources
    check, files = "ranks", len(sources)
    worlds = sorted({source.world for source in sources if source.world > 0})
    ranks = sorted(source.rank for source in sources if source.rank >= 0)
    twice = sorted({rank for rank in ranks if ranks.count(rank) > 1})
    if twice:
        which = ", ".join(map(str, twice))
        return judged(check, True, f"rank {which} came in more than one file: name each rank's trace once", "")
    if not worlds:
        return unchecked(check, "no file says how many ranks its job had")
    if len(worlds) > 1:
        sizes = " and ".join(map(str, worlds))
        return judged(check, True, f"the files belong to jobs of {sizes} ranks: name the traces of one job", "")
    here = f" (rank {', '.join(map(str, ranks))})" if ranks else ""
    return judged(
        check,
        files < worlds[0],
        f"{files} of {counted(worlds[0], 'rank')} came{here}: the others' time is in no figure",
        f"{files} of {counted(worlds[0], 'rank')} came",
    )


def _graphs(trace: Trace) -> Health:
    replays = len(trace.replays.start)
    if "node" in {source.graph_mode for source in trace.sources}:
        text = (
            "graphs were traced node by node, which slows their kernels: believe the order, not the times, and record "
        )
        return judged("graph mode", True, text + "again with --cuda-graph-trace=graph", "")
    return judged(
        "graph mode",
        replays > 0,
        f"{counted(replays, 'graph replay')} came as one interval each: their kernels are in no family "
        "(--cuda-graph-trace=node lists them)",
        "no graph hides its kernels",
    )


def _durations(trace: Trace) -> Health:
    tables = (trace.kernels, trace.copies, trace.replays, trace.launches, trace.bands, trace.ops)
    backwards = sum(int(np.count_nonzero(one.end < one.start)) for one in tables)
    return judged(
        "durations",
        backwards > 0,
        f"{counted(backwards, 'event')} end before they start, and count as no time: a clock stepped",
        "no event ends before it starts",
    )


def _strays(trace: Trace, split: Split) -> Health:
    stray = split.stray > 0
    spent = int(np.maximum(trace.kernels.end - trace.kernels.start, 0)[stray].sum()) / 1e9
    return judged(
        "stray kernels",
        bool(stray.any()),
        f"{counted(np.count_nonzero(stray), 'kernel')} ({show(spent, 's')}) far from the rest of their step: in all "
        "sums, but in no step's span",
        "no kernel lies far from the rest of its step",
    )


def _streams(trace: Trace, devices: Sequence[TraceDevice]) -> Health:
    if not devices:
        return unchecked("streams", "the files hold no timeline of kernels")
    early = running(trace)
    count, every = int(np.count_nonzero(early)), counted(len(early), "event")
    return judged(
        "streams",
        count > EDGE * len(early),
        f"{count:,} of {every} start before an earlier one of their stream has ended (programmatic launch, coarse "
        "clocks): sums of kernels count that time twice, unions once",
        f"{count:,} of {every} start before an earlier one of their stream has ended",
    )


def _names(trace: Trace, devices: Sequence[TraceDevice]) -> Health:
    check = "accelerator's name"
    if trace.on_cpu:
        return unchecked(check, "operators of a CPU: no trace names it, --on does")
    said = [one.name for one in devices] or [device.name for source in trace.sources for device in source.devices]
    said = said or [trace.names[name] for name in np.unique(trace.measured.device).tolist() if name >= 0]
    nameless = [str(number) for number in sorted({one.device for one in devices if not one.name})][:8]
    whose = f"of device {', '.join(nameless)}" if nameless else "of the accelerator"
    return judged(
        check,
        not said or not all(said),
        f"the name {whose} is in no file, and none is guessed: say it with --on to get MFU and MBU",
        ", ".join(sorted(set(said))),
    )


def _counters(trace: Trace) -> Health:
    measured, samples = len(trace.measured.name), len(trace.counters.time)
    if not measured and not samples:
        return unchecked("counters", "not measured: the files hold no hardware counters (Nsight Compute collects them)")
    detail = f"{counted(measured, 'kernel')} with counters, {counted(samples, 'sample')} over time"
    return judged("counters", False, "", detail)


def _marks(split: Split) -> Iterator[Health]:
    """Whether the kernels of the user's own ranges tell the phase that the range does; nothing without such ranges."""
    asked = [step for step in split.steps if step.told is not None]
    if not asked:
        return
    other = [step for step in asked if {step.told, step.phase} == {"prefill", "decode"}]
    what = f" of {counted(len(asked), 'step')} that ranges of your own mark"
    first = f" (the first is marked {other[0].phase}, {other[0].evidence[-1]})" if other else ""
    yield judged(
        "phases as marked",
        bool(other),
        f"{len(other):,}{what} are of the other phase by their kernels{first}; the marks count: are they swapped?",
        f"none{what} is of the other phase by its kernels",
    )
