"""Whether two files hold one recording: a copy under another name, packed beside unpacked, or annotated by us."""

from __future__ import annotations

from typing import Any

import numpy as np

from phasewise.observe.traces.events import Trace
from phasewise.observe.traces.join import TIMED

_DEVICE = ("kernels", "copies", "replays", "launches")
"""What `--annotate` adds nothing to; the other tables tell only where none of these has a row."""

_INDICES = ("name", "kernel", "group", "thread", "shape", "rank")
"""Columns of indices, which another order of names moves."""


def fingerprint(trace: Trace) -> tuple[object, ...] | None:
    """Equal for two readings of one recording, and for no two recordings but by a miracle; None for an empty one.

    Rank, and of each table the rows, when the first began (on the recording's own clock, in ns), and the sums of every
    column: two ranks of a job, or two runs, agree in the number of kernels, never in the ns of all of them.
    """
    tables = [name for name in _DEVICE if len(getattr(trace, name)[0])]
    timed = tables or [name for name in TIMED if len(getattr(trace, name)[0])]
    found = [_of_table(getattr(trace, name), trace.origin_ns) for name in timed]
    # Tables without a timeline have fewer digits, so that names count too.
    untimed = [_of_table(one, 0) for one in (trace.measured, trace.totals) if len(one[0])]
    if not found and not untimed:
        return None
    names = () if found else trace.names
    return (trace.sources[0].rank, *timed, *found, *untimed, names)


def _of_table(table: Any, origin: int) -> tuple[object, ...]:
    start = getattr(table, "start", getattr(table, "time", None))
    first = 0 if start is None else int(start.min())
    sums = []
    for name in table._fields:
        if name not in _INDICES:
            column = getattr(table, name)
            since = column - first if name in ("start", "end", "time") else column
            sums.append(float(np.nansum(since)) if since.dtype.kind == "f" else int(since.sum(dtype=np.int64)))
    return (len(table[0]), origin + first, *sums)
