"""Where the steps of a trace are, before their phase is known: marked by bands, or found by their rhythm."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from phasewise.observe.traces import tells
from phasewise.observe.traces.events import Ints, LaunchKind, Small, Trace
from phasewise.observe.traces.marks import Marked, marked
from phasewise.observe.traces.rhythm import Calls, passes


class Found(NamedTuple):
    """A stretch of time that is one step.

    Attributes:
        rank, thread, start, end: where it is; the thread is -1 where no call was recorded.
        mark: the band that marks it; None when its rhythm does.
        device: set where no call was recorded, and the step is a stretch of a device's kernels; else -1.
        part, parts: which of the passes that its band holds.
    """

    rank: int
    thread: int
    start: int
    end: int
    mark: Marked | None = None
    device: int = -1
    part: int = 1
    parts: int = 1


class Launched(NamedTuple):
    """What each launch started, an entry per launch (or per kernel): see `rhythm.Calls`."""

    bits: Small
    attention: Small
    marker: Small
    graph: Ints


def find(
    trace: Trace, by: Ints, replayed: Ints, captured: NDArray[np.bool_], unmarked: Collection[int] = ()
) -> list[Found]:
    """Every step, by rank and start. ``by`` and ``replayed`` are the launches of kernels and replays.

    Launches that are ``captured`` into a graph run nothing and are no step's. Marks of ``unmarked`` ranks do not count.
    """
    of_kernel = _kernel_bits(trace)
    started = _started(trace, by, replayed, of_kernel)
    marks: dict[int, list[Marked]] = {}
    for mark in marked(trace):
        marks.setdefault(mark.rank, []).append(mark)
    found: list[Found] = []
    for rank in range(len(trace.sources)):
        calls = np.flatnonzero((trace.launches.rank == rank) & ~captured)
        kernels = np.flatnonzero(trace.kernels.rank == rank)
        if len(kernels) and not (by[kernels] >= 0).any():
            found += _on_devices(trace, rank, kernels, of_kernel)
        elif rank in marks and rank not in unmarked:
            found += _refined(trace, marks[rank], calls, started)
        else:
            found += _by_rhythm(trace, rank, calls, started)
    return sorted(found, key=lambda one: (one.rank, one.start, one.end))


def _kernel_bits(trace: Trace) -> Small:
    """Bits of each kernel. Where attention is not one kernel (matmul, softmax, matmul), softmax counts the layers."""
    kernels = trace.kernels
    bits = tells.table(trace.names, kernels.name)[kernels.name]
    for rank in range(len(trace.sources)):
        rows = np.flatnonzero(kernels.rank == rank)
        if not (bits[rows] & tells.ATTENTION).any():
            bits[rows] = np.where(bits[rows] & tells.SOFTMAX, bits[rows] | tells.EITHER, bits[rows])
    return bits


def _started(trace: Trace, by: Ints, replayed: Ints, of_kernel: Small) -> Launched:
    launches = trace.launches
    rows = len(launches.start)
    known = by >= 0
    bits, marker = np.zeros(rows, np.int32), np.full(rows, -1, np.int32)
    for bit in (tells.SAMPLE, tells.EMBED):
        marked = np.flatnonzero(known & ((of_kernel & bit) != 0))
        bits[by[marked]] |= bit
        marker[by[marked]] = trace.kernels.name[marked]
    attention = np.bincount(by[known & ((of_kernel & tells.ATTENTION) != 0)], minlength=rows).astype(np.int32)
    graph = np.full(rows, -1, np.int64)
    graph[replayed[replayed >= 0]] = trace.replays.graph[replayed >= 0]
    return Launched(bits, attention, marker, graph)


def _calls(trace: Trace, rows: Ints, started: Launched) -> Calls:
    launches = trace.launches
    return Calls(
        launches.start[rows],
        launches.end[rows],
        started.bits[rows],
        started.attention[rows],
        started.marker[rows],
        started.graph[rows],
    )


def _by_thread(trace: Trace, calls: Ints) -> list[tuple[int, Ints]]:
    """The calls of each thread, by start."""
    launches = trace.launches
    order = calls[np.lexsort((launches.start[calls], launches.thread[calls]))]
    threads, first = np.unique(launches.thread[order], return_index=True)
    return list(zip(threads.tolist(), np.split(order, first[1:]), strict=True)) if len(order) else []


def _by_rhythm(trace: Trace, rank: int, calls: Ints, started: Launched) -> list[Found]:
    """The passes of every thread that runs some; all of the rank as one step when none does."""
    launches = trace.launches
    found: list[Found] = []
    for thread, rows in _by_thread(trace, calls):
        found += _stretches(rank, thread, rows, launches.start, launches.end, _calls(trace, rows, started))
    working = calls[np.isin(launches.kind[calls], (LaunchKind.KERNEL, LaunchKind.GRAPH))]
    if found or not len(working):
        return found
    thread = int(np.bincount(np.maximum(launches.thread[working], 0)).argmax())
    return [Found(rank, thread, int(launches.start[calls].min()), int(launches.end[calls].max()))]


def _stretches(rank: int, thread: int, rows: Ints, start: Ints, end: Ints, calls: Calls) -> list[Found]:
    edges = passes(calls)
    return [
        Found(rank, thread, int(start[rows[first]]), int(end[rows[past - 1]]))
        for first, past in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
    ]


def _refined(trace: Trace, marks: list[Marked], calls: Ints, started: Launched) -> list[Found]:
    """The marked steps; a range of the user's own that holds several passes as that many steps."""
    launches = trace.launches
    rows_of = dict(_by_thread(trace, calls))
    found: list[Found] = []
    for mark in marks:
        whole = Found(mark.rank, mark.thread, mark.start, mark.end, mark)
        rows = rows_of.get(mark.thread)
        if mark.mark.exact or rows is None:
            found.append(whole)
            continue
        low, high = np.searchsorted(launches.start[rows], (mark.start, mark.end + 1)).tolist()
        inside = _stretches(
            mark.rank, mark.thread, rows[low:high], launches.start, launches.end, _calls(trace, rows[low:high], started)
        )
        if len(inside) < 2:
            found.append(whole)
            continue
        starts = [mark.start, *(one.start for one in inside[1:])]
        ends = [*(start - 1 for start in starts[1:]), mark.end]
        found += [
            whole._replace(start=start, end=end, part=part, parts=len(inside))
            for part, (start, end) in enumerate(zip(starts, ends, strict=True), 1)
        ]
    return found


def _on_devices(trace: Trace, rank: int, kernels: Ints, of_kernel: Small) -> list[Found]:
    """Where no launch was recorded: the passes of each device, from the order of its kernels."""
    table = trace.kernels
    found: list[Found] = []
    for device in np.unique(table.device[kernels]).tolist():
        rows = kernels[table.device[kernels] == device]
        rows = rows[np.argsort(table.start[rows], kind="stable")]
        bits = of_kernel[rows]
        attention = ((bits & tells.ATTENTION) != 0).astype(np.int32)
        marker = np.where(bits & (tells.SAMPLE | tells.EMBED), table.name[rows], -1).astype(np.int32)
        graph = np.full(len(rows), -1, np.int64)
        calls = Calls(table.start[rows], table.end[rows], bits, attention, marker, graph)
        whole = Found(rank, -1, int(table.start[rows[0]]), int(table.end[rows].max()))
        stretches = _stretches(rank, -1, rows, table.start, table.end, calls) or [whole]
        found += [one._replace(device=device) for one in stretches]
    return found
