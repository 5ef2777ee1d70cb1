"""The launch of every device event, and the step of every launch: by correlation, never by device timestamps alone.

A device runs its kernels after the CPU band that launched them has ended (all of them in a graph replay), so the
time of a kernel says nothing of its step. Its launch does: the runtime call with its correlation id, in its own rank.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from phasewise.observe.traces.events import Ints, Launches, Small, Thread

NONE = -1


class Spans(NamedTuple):
    """Stretches of CPU time on threads, ns, both ends inside; ``step`` is what a launch in one of them belongs to."""

    start: Ints
    end: Ints
    thread: Ints
    step: Ints


def launched_by(launches: Launches, rank: Small, correlation: Ints, start: Ints) -> Ints:
    """Row in ``launches`` that started each device event, -1 when none did. One launch may start many.

    An id that several calls of a rank carry (a file of several processes) means the last one begun by ``start``.
    """
    found = np.full(len(rank), NONE, np.int64)
    rows = np.flatnonzero(launches.correlation >= 0)
    if not len(rows) or not len(found):
        return found
    keys, wanted = _keys(launches.rank[rows], launches.correlation[rows], rank, correlation)
    order = np.argsort(keys, kind="stable")
    keys, rows = keys[order], rows[order]
    at = np.searchsorted(keys, wanted)
    at[at == len(keys)] = 0
    hit = (keys[at] == wanted) & (correlation >= 0)
    found[hit] = rows[at[hit]]
    twice = np.flatnonzero(np.diff(keys) == 0)
    if len(twice):
        again = np.flatnonzero(hit & np.isin(wanted, keys[twice]))
        found[again] = _latest(launches, keys, rows, wanted[again], start[again])
    return found


def _keys(rank: Small, correlation: Ints, other_rank: Small, other: Ints) -> tuple[Ints, Ints]:
    """One integer per (rank, correlation), the same for both tables."""
    width = int(max(correlation.max(), other.max(), 0)) + 1
    ranks = int(max(rank.max(), other_rank.max())) + 1
    if width < (1 << 62) // ranks:
        return rank * np.int64(width) + correlation, other_rank * np.int64(width) + other
    distinct, dense = np.unique(np.concatenate((correlation, other)), return_inverse=True)
    here, there = dense[: len(correlation)], dense[len(correlation) :]
    return rank * np.int64(len(distinct)) + here, other_rank * np.int64(len(distinct)) + there


def _latest(launches: Launches, keys: Ints, rows: Ints, wanted: Ints, start: Ints) -> Ints:
    """For ids that are not unique: of the calls with the id the last begun by ``start``, or the first of all."""
    inside = np.isin(keys, wanted)
    keys, rows = keys[inside], rows[inside]
    calls = len(keys)
    key = np.concatenate((keys, wanted))
    order = np.lexsort((np.arange(len(key)), np.concatenate((launches.start[rows], start)), key))
    is_call, sorted_key = order < calls, key[order]
    place = np.arange(len(order))
    before = np.maximum.accumulate(np.where(is_call, place, 0))
    after = np.minimum.accumulate(np.where(is_call, place, len(order) - 1)[::-1])[::-1]
    chosen = np.where((sorted_key[before] == sorted_key) & is_call[before], before, after)
    asked = ~is_call
    latest = np.empty(len(wanted), np.int64)
    latest[order[asked] - calls] = rows[order[chosen[asked]]]
    return latest


def step_of(time: Ints, thread: Small, spans: Spans, threads: tuple[Thread, ...]) -> tuple[Small, NDArray[np.bool_]]:
    """The step whose span holds each (time, thread), -1 none; and True where the span is another thread's.

    Of spans that overlap on a thread the one begun last counts: no nesting is needed. A thread without spans of its own
    (a worker whose engine thread writes the marks) takes those of its process.
    """
    step = np.full(len(time), NONE, np.int32)
    elsewhere = np.zeros(len(time), np.bool_)
    if not len(spans.start):
        return step, elsewhere
    process = np.array([_process(threads, index) for index in range(len(threads))], np.int64)
    marked = np.unique(spans.thread)
    by_thread = _grouped(thread)
    for index, rows in by_thread.items():
        own = index in marked
        if index < 0 or (not own and process[index] not in process[marked]):
            continue
        mine = spans.thread == index if own else process[spans.thread] == process[index]
        step[rows] = inside(time[rows], Spans(*(column[mine] for column in spans)))
        elsewhere[rows] = not own
    return step, elsewhere & (step >= 0)


def _process(threads: tuple[Thread, ...], index: int) -> int:
    """The first thread of the same process, as its number."""
    one = threads[index]
    return next(i for i, other in enumerate(threads) if (other.rank, other.pid) == (one.rank, one.pid))


def _grouped(values: Small) -> dict[int, Ints]:
    """Rows of each distinct value."""
    order = np.argsort(values, kind="stable")
    distinct, first = np.unique(values[order], return_index=True)
    return dict(zip(distinct.tolist(), np.split(order, first[1:]), strict=True)) if len(distinct) else {}


def inside(time: Ints, spans: Spans) -> Small:
    """The step of the span that holds each time: the last begun, or else an earlier one that is still open."""
    order = np.lexsort((-spans.end, spans.start))
    start, end, step = spans.start[order], spans.end[order], spans.step[order]
    reach = np.maximum.accumulate(end)
    at = np.searchsorted(start, time, "right") - 1
    found = np.full(len(time), NONE, np.int32)
    left = np.flatnonzero(at >= 0)
    while len(left):
        inside = time[left] <= end[at[left]]
        found[left[inside]] = step[at[left[inside]]]
        left = left[~inside]
        at[left] -= 1
        left = left[(at[left] >= 0)]
        left = left[time[left] <= reach[at[left]]]
    return found


def through_launch(launch: Ints, step: Small) -> Small:
    """The step of each device event by that of its launch, -1 without a launch."""
    if not len(step):
        return np.full(len(launch), NONE, np.int32)
    return np.where(launch >= 0, step[launch], NONE).astype(np.int32)


def between_neighbours(step: Small, launch: Ints, stream: Ints, start: Ints) -> Small:
    """Steps with those of kernels without a launch record filled in where both neighbours on their stream agree.

    ``stream`` is one number per (rank, device, stream). A stream runs its kernels in the order of their launches, so a
    kernel between two of one step is of that step too. What lies at an edge, or between two steps, stays outside.
    """
    lost = launch < 0
    if not lost.any() or lost.all():
        return step
    order = np.lexsort((start, stream))
    stream, known = stream[order], ~lost[order]
    rows = np.arange(len(order))
    before = np.maximum.accumulate(np.where(known, rows, -1))
    after = np.minimum.accumulate(np.where(known, rows, len(rows))[::-1])[::-1]
    place = np.flatnonzero(~known)
    before, after = before[place], after[place]
    both = (before >= 0) & (after < len(rows))
    place, before, after = place[both], before[both], after[both]
    sorted_step = step[order]
    agree = (stream[before] == stream[place]) & (stream[after] == stream[place])
    agree &= sorted_step[before] == sorted_step[after]
    filled = step.copy()
    filled[order[place[agree]]] = sorted_step[before[agree]]
    return filled


def stream_number(rank: Small, device: Small, stream: Ints) -> Ints:
    """One number per (rank, device, stream)."""
    wide = (rank.astype(np.int64) << 40) + (device.astype(np.int64) << 20)
    if len(stream) and (stream.min() < -1 or stream.max() >= (1 << 20) - 1):
        stream = np.unique(stream, return_inverse=True)[1].astype(np.int64)
    return np.unique(wide + stream + 1, return_inverse=True)[1].astype(np.int64)
