"""Several files as one trace: one table of names, one clock, a rank for every event."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from phasewise.observe.traces import tables
from phasewise.observe.traces.events import NOT_SAID, Fault, Small, Source, Thread, Trace
from phasewise.observe.traces.tables import Names, Table

TIMED = ("kernels", "copies", "replays", "launches", "bands", "ops", "counters")
"""The tables of a trace that lie on a clock."""

_TABLES = (*TIMED, "measured", "totals")
UNIX = 10**17
"""ns: an origin from here on (1973) is a Unix time; one below counts from something else."""

_NAMES, _THREADS, _TIMES = ("name", "kernel", "group"), ("thread",), ("start", "end", "time")


def joined(traces: Sequence[Trace], ranks: Sequence[int], sources: Sequence[Source]) -> Trace:
    """``traces`` as one: ``ranks`` says which of ``sources`` the (first) source of each of them is.

    Times become ns since the earliest known origin. A trace that knows none keeps its own zero, and says so when
    others know theirs.
    """
    if len(traces) == 1:
        return traces[0]._replace(sources=tuple(sources))
    names, shapes, threads = Names(), Names(), _Threads()
    kept = _on_the_clock(traces)
    origin = min((trace.origin_ns for trace, on_it in zip(traces, kept, strict=True) if on_it), default=0)
    moved = []
    for trace, rank, on_it in zip(traces, ranks, kept, strict=True):
        index = {
            **dict.fromkeys(_NAMES, _indices(names(name) for name in trace.names)),
            **dict.fromkeys(_THREADS, _indices(threads(thread, rank) for thread in trace.threads)),
            "shape": _indices(shapes(shape) for shape in trace.shapes),
        }
        shift = trace.origin_ns - origin if on_it else 0
        moved.append({name: _moved(getattr(trace, name), index, rank, shift) for name in _TABLES})
    whole: dict[str, Any] = {
        name: tables.joined(type(moved[0][name]), [one.pop(name) for one in moved]) for name in _TABLES
    }
    return Trace(
        names=names.all,
        threads=tuple(threads.index),
        shapes=shapes.all,
        sources=_with_clocks(traces, ranks, sources, kept),
        origin_ns=origin,
        on_cpu=any(trace.on_cpu for trace in traces),
        **whole,
    )


def beside(traces: Sequence[Trace]) -> Trace:
    """Traces of different recordings as one, each from its own zero, with the ranks one after the other."""
    sources = [source for trace in traces for source in trace.sources]
    if len(traces) == 1:
        return traces[0]
    ranks = [0, *accumulate(len(trace.sources) for trace in traces)]
    return joined([_from_zero(trace) for trace in traces], ranks[:-1], sources)


def _from_zero(trace: Trace) -> Trace:
    """``trace`` on a clock whose zero is its earliest event: traces of different days then lie over each other."""
    starts = [getattr(trace, name)[0] for name in TIMED]
    first = min((int(start.min()) for start in starts if len(start)), default=0)
    moved = {name: _moved(getattr(trace, name), {}, None, -first) for name in TIMED}
    return trace._replace(origin_ns=0, **moved)


class _Threads:
    """Distinct threads: those that two files of one process name are one."""

    def __init__(self) -> None:
        self.index: dict[Thread, int] = {}

    def __call__(self, thread: Thread, rank: int) -> int:
        return self.index.setdefault(thread._replace(rank=thread.rank + rank), len(self.index))


def _indices(new: Any) -> Small:
    """New index of each old one; what was not said (-1, so the last) stays so."""
    return np.array([*new, NOT_SAID], np.int32)


def _moved(one: Table, index: dict[str, Small], rank: int | None, shift: int) -> Table:
    if not len(one[0]):
        return one
    columns: list[Any] = []
    for name in one._fields:
        column: Any = getattr(one, name)
        if name in _TIMES and shift:
            columns.append(column + np.int64(shift))
        elif name == "rank" and rank is not None:
            columns.append(column + np.int32(rank))
        elif name in index:
            columns.append(index[name][column])
        elif name == "device" and "dram_bytes" in one._fields and index:  # Measured names its devices
            columns.append(index["name"][column])
        else:
            columns.append(column)
    return type(one)(*columns)


def _on_the_clock(traces: Sequence[Trace]) -> list[bool]:
    """Which traces share the clock: those with a Unix time, else, when none has one, those with any origin.

    Without a Unix time an origin counts from when the machine was started, which the ranks of one machine share.
    """
    unix = [trace.origin_ns >= UNIX for trace in traces]
    return unix if any(unix) else [bool(trace.origin_ns) for trace in traces]


def _with_clocks(
    traces: Sequence[Trace], ranks: Sequence[int], sources: Sequence[Source], kept: Sequence[bool]
) -> tuple[Source, ...]:
    """``sources`` with a fault for each that has events and does not share the others' clock."""
    rows = zip(traces, ranks, kept, strict=True)
    lost = {rank for trace, rank, on_it in rows if any(kept) and not on_it and timed(trace)}
    why = "it does not say at which time it began, which others do: its times count from its own zero"
    return tuple(
        source._replace(faults=(*source.faults, Fault("times", why))) if rank in lost else source
        for rank, source in enumerate(sources)
    )


def timed(trace: Trace) -> bool:
    """Whether ``trace`` holds anything that lies on a clock."""
    return any(len(getattr(trace, name)[0]) for name in TIMED)
