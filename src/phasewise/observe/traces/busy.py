"""How the time on a device adds up: exact unions of intervals, the gaps in them, and what a utilisation counter says.

All times are integer nanoseconds. A kernel that ends before it starts (a clock that stepped) counts as length 0.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from phasewise.observe.traces.events import Ints, Small, Trace
from phasewise.record.trace import Gaps, TraceDevice

LONG_NS = 10_000
"""A gap over 10 µs is long: a launch takes about 5 (predict/launches.py), so that the device waited for the host."""

OVERLAP_NS = 2
"""Events of one stream run one after the other; clocks are rounded to a nanosecond at both ends."""

SAMPLE_NS = 1_000_000_000 // 6
"""NVML samples utilisation over 1/6 s to 1 s, by product (nvmlUtilization_t); the shorter flatters less."""


class Cover(NamedTuple):
    """Intervals laid over each other, each group for itself.

    Attributes:
        union: ns in which at least one interval of the group lay, per group; 0 in an empty one.
        first, last: its earliest start and latest end; 0 in an empty one.
        order: the rows by group, then by start.
        idle: for each row of ``order``, the ns that nothing of its group covered right before it.
        after: for each row of ``order``, the place in it of what had ended last of all before; -1 for a group's first.
    """

    union: Ints
    first: Ints
    last: Ints
    order: Ints
    idle: Ints
    after: Ints


def cover(group: NDArray[np.signedinteger], start: Ints, end: Ints, groups: int) -> Cover:
    """Lay the intervals of each group over each other; ``group`` counts from 0 to ``groups`` - 1.

    Each group gets a stretch of one common axis for itself, so that one running maximum serves all of them.
    """
    union, first, last = (np.zeros(groups, np.int64) for _ in range(3))
    order = ordered(group, start)
    if not len(order):
        return Cover(union, first, last, order, np.zeros(0, np.int64), np.zeros(0, np.int64))
    of = group[order]
    heads = heads_of(of)
    rows = np.diff(np.append(heads, len(of)))
    begin = start[order]
    stop = np.maximum(end[order], begin)
    latest = np.maximum.reduceat(stop, heads)
    length = latest - begin[heads]
    shift = np.repeat(np.cumsum(length + 1) - length - begin[heads], rows)
    until = np.maximum.accumulate(stop + shift)
    idle, after = np.zeros(len(of), np.int64), np.zeros(len(of), np.int64)
    np.maximum(begin[1:] + shift[1:] - until[:-1], 0, out=idle[1:])
    np.maximum.accumulate(np.where(until[1:] > until[:-1], np.arange(1, len(of)), 0)[:-1], out=after[2:])
    idle[heads], after[heads] = 0, -1
    present = of[heads]
    union[present] = length - np.add.reduceat(idle, heads)
    first[present], last[present] = begin[heads], latest
    return Cover(union, first, last, order, idle, after)


def ordered(group: NDArray[np.signedinteger], start: Ints) -> Ints:
    """Rows by group, then by start; rows that come nearly in order, as traces do, cost next to nothing."""
    order = np.argsort(start, kind="stable")
    return order[np.argsort(group[order], kind="stable")]


def heads_of(of: NDArray[np.signedinteger]) -> Ints:
    """Where each group begins, in rows that are ordered by group."""
    return np.flatnonzero(np.append(True, of[1:] != of[:-1])) if len(of) else np.zeros(0, np.int64)


def gaps(idle: Ints, between_s: float | None = None) -> Gaps:
    """The gaps among ``idle`` ns, in which 0 is none."""
    return Gaps(
        count=int(np.count_nonzero(idle)),
        total_s=int(idle.sum()) / 1e9,
        long=int(np.count_nonzero(idle > LONG_NS)),
        largest_s=int(idle.max(initial=0)) / 1e9,
        between_s=between_s,
    )


def resident(start: Ints, end: Ints) -> float:
    """What "100% utilisation" would have said of one device: the share of sample windows with a kernel resident.

    NVML defines utilisation as the time during which one or more kernels was executing, over sample periods of 1/6 s to
    1 s; nvidia-smi shows it as a share of them. Here a window of 1/6 s counts as soon as any kernel lay in it, from the
    first start on, the last window included: what a counter shows at most, and what it comes close to when kernels
    follow each other with gaps of microseconds. At least one window; 0 without kernels.
    """
    if not len(start):
        return 0.0
    begin = np.sort(start) - start.min()
    stop = np.maximum.accumulate(np.maximum(end, start)[np.argsort(start, kind="stable")] - start.min())
    low, high = begin // SAMPLE_NS, np.maximum(stop - 1, begin) // SAMPLE_NS
    seen = np.append(-1, high[:-1])
    counted = int(np.maximum(high - np.maximum(low, seen + 1) + 1, 0).sum())
    return counted / (int(stop[-1] - 1 if stop[-1] else 0) // SAMPLE_NS + 1)


class Intervals(NamedTuple):
    """Kernels, copies and replays of a trace in one table, in this order."""

    start: Ints
    end: Ints
    rank: Small
    device: Small
    stream: Ints


def intervals(trace: Trace) -> Intervals:
    """Everything that ran on a device."""
    tables = (trace.kernels, trace.copies, trace.replays)
    return Intervals(*(np.concatenate([getattr(one, name) for one in tables]) for name in Intervals._fields))


def codes(*columns: NDArray[np.signedinteger]) -> tuple[Ints, list[tuple[int, ...]]]:
    """Rows numbered by their values in two or three columns, and the values of each number, in order."""
    packed = np.zeros(len(columns[0]), np.int64)
    tables = []
    for column in columns:
        values = np.unique(column)
        tables.append(values)
        packed = packed * len(values) + np.searchsorted(values, column)
    present, numbers = np.unique(packed, return_inverse=True)
    found = []
    for code in present.tolist():
        row = []
        for values in reversed(tables):
            code, place = divmod(code, len(values))
            row.append(int(values[place]))
        found.append(tuple(reversed(row)))
    return numbers.reshape(-1), found


def overlaps(all_: Intervals) -> Ints:
    """For each row, in the order given, whether the next event of its stream starts before it ends (by over 2 ns)."""
    lane, _ = codes(all_.rank, all_.device, all_.stream)
    order = ordered(lane, all_.start)
    early = (lane[order][1:] == lane[order][:-1]) & (all_.end[order][:-1] - all_.start[order][1:] > OVERLAP_NS)
    found = np.zeros(len(order), np.int64)
    found[order[:-1][early]] = 1
    return found


def devices(trace: Trace) -> tuple[TraceDevice, ...]:
    """Every device of every rank, by rank and id."""
    every = intervals(trace)
    if not len(every.start):
        return ()
    where, found = codes(every.rank, every.device)
    kernels, copies = len(trace.kernels.start), len(trace.copies.start)
    whole = cover(where, every.start, every.end, len(found))
    alone = cover(where[:kernels], trace.kernels.start, trace.kernels.end, len(found))
    overlap = np.bincount(where, overlaps(every), len(found))
    duration = np.maximum(trace.kernels.end - trace.kernels.start, 0)
    total = np.bincount(where[:kernels], duration, len(found))
    counts = [np.bincount(part, minlength=len(found)) for part in np.split(where, [kernels, kernels + copies])]
    at = where[whole.order]
    made = []
    for number, (rank, device) in enumerate(found):
        span = int(whole.last[number] - whole.first[number])
        counted = np.append(np.ones(kernels, bool), np.zeros(copies, bool))
        counted = np.append(counted, np.ones(len(where) - kernels - copies, bool)) & (where == number)
        made.append(
            TraceDevice(
                rank=rank,
                device=device,
                name=device_name(trace, rank, device),
                kernels=int(counts[0][number]),
                copies=int(counts[1][number]),
                graph_replays=int(counts[2][number]),
                gpu_sum_s=int(total[number]) / 1e9,
                kernel_union_s=int(alone.union[number]) / 1e9,
                gpu_union_s=int(whole.union[number]) / 1e9,
                span_s=span / 1e9,
                busy_fraction=int(whole.union[number]) / span if span else 0.0,
                resident_fraction=resident(every.start[counted], every.end[counted]),
                overlaps=int(overlap[number]),
                gaps=gaps(whole.idle[at == number]),
            )
        )
    return tuple(made)


def device_name(trace: Trace, rank: int, device: int) -> str:
    """What the file calls that device, "" when it does not.

    ROCm numbers the devices of kernels with the CPUs among them, and lists them without: where no device that ran is in
    the list, each has the name that all in the list share.
    """
    listed = {one.id: one.name for one in trace.sources[rank].devices}
    ran = np.unique(trace.kernels.device[trace.kernels.rank == rank]).tolist()
    if device in listed or set(ran) & set(listed):
        return listed.get(device, "")
    names = set(listed.values())
    return names.pop() if len(names) == 1 else ""
