"""A trace without a device: the operators that do the work stand for kernels, on a CPU thread each."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from phasewise.observe.traces.events import Bands, Ints, Kernels, Launches, LaunchKind, Ops, Small, Trace
from phasewise.observe.traces.tables import joined, rows, table

_VIEW = re.compile(
    r"(?:aten::)?(?:empty\w*|new_empty\w*|view\w*|_?reshape\w*|transpose|t|numpy_T|permute|as_strided\w*|expand\w*|slice|select"
    r"|unsqueeze|squeeze|detach_?|alias|resolve_(?:conj|neg)|_unsafe_view|narrow|split\w*|chunk|unbind|result_type|resize_"
    r"|lift_fresh|item|_local_scalar_dense|flatten|movedim|contiguous|size|stride|is_\w+)$"
)
"""Operators that describe memory and touch none of it."""

_COLLECTIVE = re.compile(r"(?:gloo|nccl|mpi|ucc|xccl|hccl):")
"""Bands that collectives without a device write on threads of their own."""

OWN = 0.5
"""An operator name works itself when at least this share of its time is outside the operators it calls."""


def on_cpu(trace: Trace) -> Trace:
    """``trace`` with operators as kernels, where nothing says that a device worked; else ``trace`` itself.

    A device that a file names, and any call to one, says so though the file may lack what ran on it (it was cut before
    the kernels, or its profiler left the device out): operators only launched that, and do not stand for it.
    A working operator is one row, its longest stretch outside the operators that it calls. Which names work is
    decided over the whole trace, so that a pass always gives the same kernels. Device 0; the stream is the thread; each
    is its own launch, so that attribution finds it.
    """
    device = (trace.kernels, trace.replays, trace.copies, trace.launches)
    if any(len(one.start) for one in device) or any(source.devices for source in trace.sources):
        return trace
    if not len(trace.ops.start):
        return trace
    sound = (trace.ops.name >= 0) & (trace.ops.end >= trace.ops.start)
    ops = rows(trace.ops, sound & ~_named(trace, trace.ops.name, _VIEW.match))
    ops = rows(ops, np.lexsort((np.arange(len(ops.start)), -ops.end, ops.start, ops.thread)))
    inner, start, end = _own_time(ops)
    length = np.maximum(ops.end - ops.start, 1)
    own = np.bincount(ops.name, inner) >= OWN * np.bincount(ops.name, length)
    works = own[ops.name] & (end > start)
    collective = rows(trace.bands, _named(trace, trace.bands.name, _COLLECTIVE.match))
    kernels = _kernels(rows(ops, works), start[works], end[works], collective)
    launches = _launches(kernels, np.concatenate((ops.thread[works], collective.thread)), len(trace.launches.start))
    kernels = kernels._replace(correlation=launches.correlation)
    return trace._replace(kernels=kernels, launches=joined(Launches, (trace.launches, launches)), on_cpu=True)


def _named(trace: Trace, name: Small, matches: Callable[[str], object]) -> NDArray[np.bool_]:
    """Rows whose name matches."""
    found = np.zeros(len(trace.names) + 1, np.bool_)
    for index in np.unique(name[name >= 0]).tolist():
        found[index] = matches(trace.names[index]) is not None
    return found[name]


def _own_time(ops: Ops) -> tuple[Ints, Ints, Ints]:
    """Time of each operator outside those it calls, and its longest such stretch.

    ``ops`` come by thread, start, longest first. Children of one parent follow each other, so its stretches lie before
    the first, between two, and after the last.
    """
    if not len(ops.start):
        return ops.start, ops.start, ops.end
    parent = _parents(ops)
    has = np.flatnonzero(parent >= 0)
    length = ops.end - ops.start
    inner = length - np.bincount(parent[has], length[has], len(length)).astype(np.int64)
    order = has[np.lexsort((ops.start[has], parent[has]))]
    of = parent[order]
    first = np.concatenate(([True], of[1:] != of[:-1])) if len(of) else np.empty(0, np.bool_)
    before = np.where(first, ops.start[of], np.concatenate(([0], ops.end[order][:-1])))
    last = np.concatenate((first[1:], [True])) if len(of) else first
    alone = np.setdiff1d(np.arange(len(length)), of)
    owner = np.concatenate((alone, of, of[last]))
    start = np.concatenate((ops.start[alone], before, ops.end[order][last]))
    end = np.concatenate((ops.end[alone], ops.start[order], ops.end[of[last]]))
    longest = np.lexsort((end - start, owner))
    longest = longest[np.concatenate((owner[longest][1:] != owner[longest][:-1], [True]))]
    return inner, start[longest], end[longest]


def _parents(ops: Ops) -> Ints:
    """Row of the operator around each, -1 outside all; ``ops`` by thread, start, longest first."""
    parent = np.full(len(ops.start), -1, np.int64)
    stack: list[int] = []
    columns = zip(ops.start.tolist(), ops.end.tolist(), ops.thread.tolist(), strict=True)
    ends, threads = ops.end.tolist(), ops.thread.tolist()
    for row, (start, end, thread) in enumerate(columns):
        while stack and (threads[stack[-1]] != thread or ends[stack[-1]] <= start or ends[stack[-1]] < end):
            stack.pop()
        if stack:
            parent[row] = stack[-1]
        stack.append(row)
    return parent


def _kernels(ops: Ops, start: Ints, end: Ints, collective: Bands) -> Kernels:
    def both(first: Small, second: Small) -> Small:
        return np.concatenate((first, second))

    thread = both(ops.thread, collective.thread)
    return table(
        Kernels,
        {
            "start": np.concatenate((start, collective.start)),
            "end": np.concatenate((end, collective.end)),
            "name": both(ops.name, collective.name),
            "rank": both(ops.rank, collective.rank),
            "device": np.zeros(len(thread), np.int32),
            "stream": thread,
            "external": np.concatenate((ops.external, np.full(len(collective.start), -1, np.int64))),
        },
    )


def _launches(kernels: Kernels, thread: Small, after: int) -> Launches:
    """Each kernel its own launch, with no time of its own."""
    return table(
        Launches,
        {
            "start": kernels.start,
            "end": kernels.start,
            "name": kernels.name,
            "rank": kernels.rank,
            "thread": thread,
            "correlation": after + 1 + np.arange(len(thread)),
            "kind": np.full(len(thread), LaunchKind.KERNEL),
            "kernel": kernels.name,
        },
    )
