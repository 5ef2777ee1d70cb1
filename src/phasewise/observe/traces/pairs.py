"""Whether launches and what they launched belong together: the checks of a trace's two halves, host and device."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from phasewise.observe.traces.busy import codes, heads_of, ordered
from phasewise.observe.traces.events import Ints, LaunchKind, Small, Trace
from phasewise.observe.traces.split import Split
from phasewise.observe.traces.verdicts import counted, judged, unchecked
from phasewise.record.trace import Health
from phasewise.units import show

EDGE = 0.01
"""A recording begins and ends while something runs: up to this share of events may lack their other half."""

_EARLY_NS = 100_000
"""Host and device clocks agree to some microseconds; a kernel 100 µs ahead of its launch shows that they do not."""


def paired(trace: Trace, split: Split) -> Iterator[Health]:
    """Launches without kernels, kernels without launches, a head that was dropped, captures alone, clocks apart."""
    yield _captured(trace)
    checks: tuple[str, ...] = (
        "launches without kernels",
        "kernels without launches",
        "head of the recording",
        "clocks of host and device",
    )
    ran = len(trace.kernels.start) + len(trace.replays.start)
    starts = _starting(trace)
    if not ran and starts.any():
        yield judged(
            checks[0],
            True,
            f"{counted(np.count_nonzero(starts), 'launch')} and no device activity: the device's time is unknown",
            "",
        )
        checks = checks[1:]
    if trace.on_cpu or not len(trace.launches.start) or not ran:
        why = "the files hold no launch calls" if ran else "the files hold no timeline of kernels"
        for check in checks:
            yield unchecked(check, "operators on a CPU launch nothing" if trace.on_cpu else why)
        return
    yield _lone(trace, split, starts)
    yield _orphans(split, ran)
    yield _head(trace, split)
    yield _clocks(trace, split)


def lost(trace: Trace) -> list[int]:
    """Ranks of which the host's side came and no kernel: the device's side is not in their file.

    Copies alone are a whole recording when nothing else was launched and the file has its end.
    """
    if len(trace.measured.name) or len(trace.totals.name):
        return []
    count = len(trace.sources)
    hosts, ran, copied = (
        np.bincount(np.concatenate([one.rank for one in tables]), minlength=count)
        for tables in ((trace.launches, trace.bands, trace.ops), (trace.kernels, trace.replays), (trace.copies,))
    )
    launched = np.bincount(trace.launches.rank[_starting(trace)], minlength=count)
    cut = np.array([any(fault.check == "truncated" for fault in source.faults) for source in trace.sources])
    whole = (copied > 0) & (launched == 0) & ~cut
    return list(np.flatnonzero((hosts > 0) & (ran == 0) & ~whole).tolist())


def capture_files(trace: Trace, split: Split) -> set[int]:
    """Ranks whose file only shows graphs being captured, so that it names the kernels of another file's replays."""
    captured = np.unique(trace.launches.rank[trace.launches.kind == LaunchKind.CAPTURE]).tolist()
    return set(captured) - {step.rank for step in split.steps}


def _captured(trace: Trace) -> Health:
    captures = np.count_nonzero(trace.launches.kind == LaunchKind.CAPTURE)
    replayed = bool(np.any(trace.launches.kind == LaunchKind.GRAPH)) or len(trace.replays.start) > 0
    return judged(
        "captured graphs",
        captures > 0 and not replayed,
        f"graphs were captured ({counted(captures, 'call')}) and none replayed: the engine's start, not its work",
        "no graph was captured without being replayed",
    )


def _starting(trace: Trace) -> NDArray[np.bool_]:
    """Launches of kernels and graphs that run something."""
    return np.isin(trace.launches.kind, (LaunchKind.KERNEL, LaunchKind.GRAPH)) & ~_capturing(trace)


def _lone(trace: Trace, split: Split, starts: NDArray[np.bool_]) -> Health:
    has = np.zeros(len(starts), bool)
    for by in (split.launched_by, split.replayed_by):
        has[by[by >= 0]] = True
    # A runtime call and the driver call below it may share an id, of which attribution takes one.
    ran = np.concatenate([_keyed(one.rank, one.correlation) for one in (trace.kernels, trace.replays)])
    has |= np.isin(_keyed(trace.launches.rank, trace.launches.correlation), ran)
    lone, every = int(np.count_nonzero(starts & ~has)), int(np.count_nonzero(starts))
    return judged(
        "launches without kernels",
        lone > EDGE * every,
        f"{lone:,} of {counted(every, 'launch')} have no kernel: the device's side is not whole, its time too low",
        f"{every - lone:,} of {counted(every, 'launch')} have what they launched",
    )


def _capturing(trace: Trace) -> NDArray[np.bool_]:
    """Launches between the begin and the end of a capture on their thread: they run nothing."""
    launches = trace.launches
    change = np.zeros(len(launches.start), np.int64)
    for row in np.flatnonzero(launches.kind == LaunchKind.CAPTURE).tolist():
        name = trace.names[launches.name[row]]
        change[row] = 1 if "Begin" in name else -1 if "End" in name else 0
    within = np.zeros(len(change), bool)
    if change.any():
        lane, _ = codes(launches.rank, launches.thread)
        order = ordered(lane, launches.start)
        depth = np.cumsum(change[order])
        heads = heads_of(lane[order])
        depth -= np.repeat(depth[heads] - change[order][heads], np.diff(np.append(heads, len(order))))
        within[order] = depth > 0
    return within


def _keyed(rank: Small, correlation: Ints) -> Ints:
    return np.asarray((rank.astype(np.int64) << 48) ^ correlation)


def _orphans(split: Split, ran: int) -> Health:
    orphans = int(np.count_nonzero(split.launched_by < 0)) + int(np.count_nonzero(split.replayed_by < 0))
    what = "kernels and replays"
    return judged(
        "kernels without launches",
        orphans > EDGE * ran,
        f"{orphans:,} of {ran:,} {what} have no launch record: no call says which step is theirs",
        f"{ran - orphans:,} of {ran:,} {what} have their launch",
    )


def _head(trace: Trace, split: Split) -> Health:
    begun = np.full(len(trace.sources), np.iinfo(np.int64).max, np.int64)
    np.minimum.at(begun, trace.launches.rank, trace.launches.start)
    early = np.count_nonzero((split.launched_by < 0) & (trace.kernels.start < begun[trace.kernels.rank]))
    return judged(
        "head of the recording",
        early > 0,
        f"{counted(early, 'kernel')} ran before the first launch call on record: the recording's head was dropped, "
        "so its first step is not whole",
        "no kernel ran before the first launch call",
    )


def _clocks(trace: Trace, split: Split) -> Health:
    check, known = "clocks of host and device", split.launched_by >= 0
    if not known.any():
        return unchecked(check, "no kernel has its launch call")
    early = trace.launches.start[split.launched_by[known]] - trace.kernels.start[known]
    wrong = np.count_nonzero(early > _EARLY_NS)
    return judged(
        check,
        wrong > 0,
        f"{counted(wrong, 'kernel')} started before the launch call, by up to {show(int(early.max()) / 1e9, 's')}: "
        "the clocks are apart, so delays of launches and waits for the host mean nothing",
        "no kernel started before its launch call",
    )
