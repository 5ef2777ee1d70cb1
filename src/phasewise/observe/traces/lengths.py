"""Events on a device whose length cannot be: longer than all the rest of the recording, or over what follows them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from phasewise.observe.traces.busy import OVERLAP_NS, Intervals, codes, heads_of, intervals, ordered
from phasewise.observe.traces.events import Ints, Trace
from phasewise.observe.traces.verdicts import counted
from phasewise.record.trace import Health
from phasewise.units import show

COVERED = 100
"""Events of one stream run in order: one that still runs when over 100 later ones have begun has no true end."""

_SUSPECTS, _OTHERS = 8, 4
"""Events that may be absurd together, and how many others there must be for each to tell."""

_SHOWN = 120


def running(trace: Trace) -> NDArray[np.bool_]:
    """For each event on a device whether, over 2 ns before an earlier one of its stream has ended, it starts."""
    return _running(intervals(trace))


def _running(all_: Intervals) -> NDArray[np.bool_]:
    early = np.zeros(len(all_.start), np.bool_)
    if not len(early):
        return early
    lane, order, start, end = _in_lanes(all_)
    heads = heads_of(lane)
    for first, past in zip(heads.tolist(), [*heads[1:].tolist(), len(lane)], strict=True):
        reach = np.maximum.accumulate(end[first:past])
        early[order[first + 1 : past]] = reach[:-1] - start[first + 1 : past] > OVERLAP_NS
    return early


def _in_lanes(all_: Intervals) -> tuple[Ints, Ints, Ints, Ints]:
    """Streams by number, rows, starts and ends, by stream and start."""
    lane, _ = codes(all_.rank, all_.device, all_.stream)
    order = ordered(lane, all_.start)
    return lane[order], order, all_.start[order], np.maximum(all_.end, all_.start)[order]


def absurd(trace: Trace) -> Iterator[Health]:
    """A failed check for the events whose length cannot be; nothing where there is none."""
    all_ = intervals(trace)
    if not len(all_.start):
        return
    rows = np.union1d(_covering(all_), _outlasting(trace, all_))
    if not len(rows):
        return
    length = (all_.end - all_.start)[rows]
    row = int(rows[length.argmax()])
    name = trace.names[trace.kernels.name[row]][:_SHOWN] if row < len(trace.kernels.start) else "a copy or graph replay"
    yield Health(
        check="times",
        status="failed",
        detail=f"{counted(len(rows), 'event')} on a device cannot have lasted so long, {name} "
        f"{show(int(length.max()) / 1e9, 's')}: all sums and spans include that, so believe none of them",
    )


def _covering(all_: Intervals) -> Ints:
    """Rows that last over the start of more than 100 later ones of their stream."""
    lane, order, start, end = _in_lanes(all_)
    stream = all_.stream[order]
    found = []
    heads = heads_of(lane)
    for first, past in zip(heads.tolist(), [*heads[1:].tolist(), len(lane)], strict=True):
        if stream[first] < 0:  # which stream it was is not said: several may be in it
            continue
        later = np.searchsorted(start[first:past], end[first:past]) - np.arange(1, past - first + 1)
        found.append(order[first:past][later > COVERED])
    return np.concatenate(found) if found else np.zeros(0, np.int64)


def _outlasting(trace: Trace, all_: Intervals) -> Ints:
    """The longest rows, when the last of them is longer than everything but them took from its start to its end."""
    length = all_.end - all_.start
    longest = np.argsort(-length, kind="stable")[:_SUSPECTS]
    beside = (trace.launches, trace.bands, trace.ops)
    start = np.concatenate([all_.start, *(one.start for one in beside)])
    end = np.concatenate([all_.end, *(one.end for one in beside)])
    kept = np.ones(len(start), np.bool_)
    found = 0
    for count, row in enumerate(longest.tolist(), 1):
        kept[row] = False
        if len(start) - count < _OTHERS * count:
            break
        if length[row] > end[kept].max() - start[kept].min():
            found = count
    return longest[:found]
