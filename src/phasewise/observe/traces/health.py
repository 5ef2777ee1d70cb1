"""What would make a trace's figures wrong, looked for before any figure is believed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from phasewise.observe.traces.events import Ints, LaunchKind, Small, Trace
from phasewise.observe.traces.split import Split
from phasewise.record.observation import CheckStatus
from phasewise.record.trace import Health, TraceDevice, TraceStep
from phasewise.units import show

_EDGE = 0.01
"""A recording begins and ends while something runs: up to this share of events may lack their other half."""

_EARLY_NS = 100_000
"""Host and device clocks agree to some microseconds; a kernel 100 µs ahead of its launch shows that they do not."""

_FAULTS = ("truncated", "damaged", "encoding", "missing", "times")


def health(
    trace: Trace, split: Split, steps: Sequence[TraceStep], devices: Sequence[TraceDevice]
) -> tuple[Health, ...]:
    """Every check, the failed ones first, then what was not checked."""
    made = [
        *_files(trace),
        _ranks(trace),
        *_halves(trace, split),
        _head(trace, split),
        _graphs(trace),
        _captured(trace),
        _durations(trace),
        _clocks(trace, split),
        _strays(trace, split),
        _streams(devices),
        _names(trace, devices),
        _counters(trace),
        *_together(trace, steps),
    ]
    rank: dict[CheckStatus, int] = {"failed": 0, "not_checked": 1, "passed": 2}
    return tuple(sorted(made, key=lambda one: rank[one.status]))


def _health(check: str, wrong: bool, bad: str, good: str) -> Health:
    return Health(check=check, status="failed" if wrong else "passed", detail=bad if wrong else good)


def _open(check: str, why: str) -> Health:
    return Health(check=check, status="not_checked", detail=why)


def _files(trace: Trace) -> Iterator[Health]:
    faults = [(source, fault) for source in trace.sources for fault in source.faults]
    for check in _FAULTS:
        for source, fault in faults:
            if fault.check == check:
                yield Health(check=check, status="failed", detail=f"{source.path}: {fault.detail}")
    if not faults:
        yield Health(check="whole files", status="passed", detail="every file was read to its end")


def _ranks(trace: Trace) -> Health:
    worlds = {source.world for source in trace.sources if source.world > 0}
    ranks = [source.rank for source in trace.sources if source.rank >= 0]
    twice = sorted({rank for rank in ranks if ranks.count(rank) > 1})
    if twice:
        text = f"rank {', '.join(map(str, twice))} came in more than one file: name each rank's trace once"
        return Health(check="ranks", status="failed", detail=text)
    if not worlds:
        return _open("ranks", "no file says how many ranks its job had")
    if len(worlds) > 1:
        text = f"the files belong to jobs of {' and '.join(map(str, sorted(worlds)))} ranks: name the traces of one job"
        return Health(check="ranks", status="failed", detail=text)
    world = worlds.pop()
    here = ", ".join(map(str, sorted(ranks))) or f"{len(trace.sources)} files"
    return _health(
        "ranks",
        len(trace.sources) < world,
        f"{len(trace.sources)} of {world} ranks are here ({here}): the others' time is in no figure",
        f"all {world} {'rank is' if world == 1 else 'ranks are'} here",
    )


def _halves(trace: Trace, split: Split) -> Iterator[Health]:
    """Launches without kernels, and kernels without launches."""
    kinds = trace.launches.kind
    starts = (kinds == LaunchKind.KERNEL) | (kinds == LaunchKind.GRAPH)
    ran = len(trace.kernels.start) + len(trace.replays.start)
    if trace.on_cpu or not len(kinds) or not ran:
        why = "operators on a CPU launch nothing" if trace.on_cpu else _why_no_launches(trace, ran)
        yield _open("launches without kernels", why)
        yield _open("kernels without launches", why)
        return
    lone = int(np.count_nonzero(starts & ~_answered(trace, split)))
    every = int(np.count_nonzero(starts))
    yield _health(
        "launches without kernels",
        lone > _EDGE * every,
        f"{lone:,} of {every:,} launches have no kernel: the device's side is not whole, its time too low",
        f"{every - lone:,} of {every:,} launches have what they launched",
    )
    orphans = int(np.count_nonzero(split.launched_by < 0)) + int(np.count_nonzero(split.replayed_by < 0))
    yield _health(
        "kernels without launches",
        orphans > _EDGE * ran,
        f"{orphans:,} of {ran:,} kernels and replays have no launch record: no call says which step is theirs",
        f"{ran - orphans:,} of {ran:,} kernels and replays have their launch",
    )


def _why_no_launches(trace: Trace, ran: int) -> str:
    return "the files hold no timeline of kernels" if not ran else "the files hold no launch calls"


def _answered(trace: Trace, split: Split) -> NDArray[np.bool_]:
    """Launches whose correlation some kernel or replay of the same rank has."""
    has = np.zeros(len(trace.launches.kind), bool)
    for by in (split.launched_by, split.replayed_by):
        has[by[by >= 0]] = True
    return np.asarray(has | np.isin(_keyed(trace.launches.rank, trace.launches.correlation), _keys(trace)))


def _keys(trace: Trace) -> Ints:
    return np.concatenate([_keyed(one.rank, one.correlation) for one in (trace.kernels, trace.replays)])


def _keyed(rank: Small, correlation: Ints) -> Ints:
    return np.asarray(rank.astype(np.int64) << 48 ^ correlation)


def _head(trace: Trace, split: Split) -> Health:
    check = "head of the recording"
    if trace.on_cpu or not len(trace.launches.start) or not len(trace.kernels.start):
        return _open(check, "there are no launch calls to compare with")
    far = np.iinfo(np.int64).max
    begun = np.full(len(trace.sources), far, np.int64)
    np.minimum.at(begun, trace.launches.rank, trace.launches.start)
    early = int(np.count_nonzero((split.launched_by < 0) & (trace.kernels.start < begun[trace.kernels.rank])))
    return _health(
        check,
        early > 0,
        f"{early:,} kernels ran before the first launch call that was recorded: the head of the recording was dropped, so "
        "its first step is not whole",
        "no kernel ran before the first launch call",
    )


def _graphs(trace: Trace) -> Health:
    modes = {source.graph_mode for source in trace.sources if source.graph_mode}
    replays = len(trace.replays.start)
    if "node" in modes:
        text = (
            "graphs were traced node by node, which slows their kernels: believe the order, not the times, and record "
        )
        return Health(check="graph mode", status="failed", detail=text + "again with --cuda-graph-trace=graph")
    return _health(
        "graph mode",
        replays > 0,
        f"{replays:,} graph replays were recorded as one interval each: their kernels are in no family "
        "(--cuda-graph-trace=node lists them)",
        "no graph hides its kernels",
    )


def _captured(trace: Trace) -> Health:
    captures = int(np.count_nonzero(trace.launches.kind == LaunchKind.CAPTURE))
    replayed = bool(np.any(trace.launches.kind == LaunchKind.GRAPH)) or len(trace.replays.start) > 0
    return _health(
        "captured graphs",
        captures > 0 and not replayed,
        f"graphs were captured ({captures:,} calls) and none was replayed: this is the engine's start, not its work",
        "no graph was captured without being replayed",
    )


def _durations(trace: Trace) -> Health:
    tables = (trace.kernels, trace.copies, trace.replays, trace.launches, trace.bands, trace.ops)
    backwards = sum(int(np.count_nonzero(one.end < one.start)) for one in tables)
    return _health(
        "durations",
        backwards > 0,
        f"{backwards:,} events end before they start and count as no time: the clock stepped",
        "no event ends before it starts",
    )


def _clocks(trace: Trace, split: Split) -> Health:
    check, known = "clocks of host and device", split.launched_by >= 0
    if not known.any():
        return _open(check, "there are no launch calls to compare with")
    early = trace.launches.start[split.launched_by[known]] - trace.kernels.start[known]
    wrong = early > _EARLY_NS
    return _health(
        check,
        bool(wrong.any()),
        f"{np.count_nonzero(wrong):,} kernels start before their launch, by up to {show(int(early.max()) / 1e9, 's')}: the "
        "two clocks are apart, so delays of launches and gaps to the host mean nothing",
        "no kernel starts before its launch",
    )


def _strays(trace: Trace, split: Split) -> Health:
    stray = split.stray > 0
    spent = int(np.maximum(trace.kernels.end - trace.kernels.start, 0)[stray].sum()) / 1e9
    return _health(
        "stray kernels",
        bool(stray.any()),
        f"{np.count_nonzero(stray):,} kernels ({show(spent, 's')}) lie far from the rest of their step: they are counted, "
        "but stretch no span of a step",
        "no kernel lies far from the rest of its step",
    )


def _streams(devices: Sequence[TraceDevice]) -> Health:
    if not devices:
        return _open("streams", "the files hold no timeline of kernels")
    count = sum(one.overlaps for one in devices)
    every = sum(one.kernels + one.copies + one.graph_replays for one in devices)
    return _health(
        "streams",
        count > _EDGE * every,
        f"{count:,} of {every:,} events overlap the next one of their stream (programmatic launch, or a coarse clock): "
        "sums of kernels count that time twice, unions once",
        f"{every - count:,} of {every:,} events end before the next one of their stream starts",
    )


def _names(trace: Trace, devices: Sequence[TraceDevice]) -> Health:
    if trace.on_cpu:
        return _open("accelerator's name", "operators of a CPU: its name is in no trace, say it with --on")
    nameless = [one for one in devices if not one.name]
    if not devices:
        known = (
            any(device.name for source in trace.sources for device in source.devices) or len(trace.measured.name) > 0
        )
        return _health("accelerator's name", not known, _NAMELESS.format("No file"), "the files name the accelerator")
    which = ", ".join(str(one.device) for one in nameless[:8])
    return _health(
        "accelerator's name",
        bool(nameless),
        _NAMELESS.format(f"The trace of device {which}"),
        f"{', '.join(sorted({one.name for one in devices}))}",
    )


_NAMELESS = "{} names no accelerator, and none is guessed: say it with --on to get MFU and MBU"


def _counters(trace: Trace) -> Health:
    if len(trace.measured.name) or len(trace.counters.time):
        have = [f"{len(trace.measured.name):,} kernels with counters"] * bool(len(trace.measured.name))
        have += [f"{len(trace.counters.time):,} samples"] * bool(len(trace.counters.time))
        return Health(check="counters", status="passed", detail=" and ".join(have))
    return _open("counters", "not measured: these files hold no hardware counters (Nsight Compute collects them)")


def _together(trace: Trace, steps: Sequence[TraceStep]) -> Iterator[Health]:
    """Whether the ranks did the same, and at the same time; nothing for one rank."""
    ranks = sorted({step.rank for step in steps})
    if len(ranks) < 2:
        return
    starts = {rank: np.array([step.start_s for step in steps if step.rank == rank]) for rank in ranks}
    ends = {rank: max(step.start_s + step.span_s for step in steps if step.rank == rank) for rank in ranks}
    counts = {rank: len(times) for rank, times in starts.items()}
    unequal = len(set(counts.values())) > 1
    said = ", ".join(f"rank {rank}: {count:,}" for rank, count in counts.items())
    yield _health(
        "steps of the ranks", unequal, f"the ranks did not do the same steps ({said})", f"as many on each ({said})"
    )
    apart = max(float(times.min()) for times in starts.values()) - min(ends.values())
    if unequal:
        late = max(float(times.min()) for times in starts.values()) - min(
            float(times.min()) for times in starts.values()
        )
        mean = 0.0
    else:
        first = starts[ranks[0]]
        late = max(float(np.median(np.abs(times - first))) for times in starts.values())
        mean = float(np.median([step.span_s for step in steps]))
    wrong = apart > 0 or (not unequal and late > mean > 0)
    yield _health(
        "clocks of the ranks",
        wrong,
        f"the same step starts {show(late, 's')} apart on different ranks: their clocks are not aligned, so only "
        "times within a rank mean something",
        "the steps of the ranks start together",
    )
