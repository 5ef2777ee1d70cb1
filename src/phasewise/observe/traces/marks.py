"""The bands that mark steps: the outermost of nested ones, each with what its name says."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from phasewise.observe.traces.annotations import Mark, parse
from phasewise.observe.traces.events import Trace


class Marked(NamedTuple):
    """A band that marks a step: its row in `Trace.bands`, thread and times (ns), and its mark."""

    band: int
    rank: int
    thread: int
    start: int
    end: int
    mark: Mark


def marked(trace: Trace) -> list[Marked]:
    """Bands that mark steps, by rank, thread and start.

    An outer band holds what its inner one leaves out (sampling, preparing the input), so it is the step. A range of the
    user's own that holds several steps, or one of another phase, only says what they are part of.
    """
    bands = trace.bands
    names = np.unique(bands.name[bands.name >= 0]).tolist()
    marks = {index: mark for index in names if (mark := parse(trace.names[index]))}
    rows = np.flatnonzero(np.isin(bands.name, np.fromiter(marks, np.int64, len(marks))) & (bands.end > bands.start))
    order = rows[np.lexsort((rows, -bands.end[rows], bands.start[rows], bands.thread[rows], bands.rank[rows]))]
    columns = (bands.rank, bands.thread, bands.start, bands.end, bands.name)
    table = zip(order.tolist(), *(column[order].tolist() for column in columns), strict=True)
    found = [Marked(row, rank, thread, start, end, marks[name]) for row, rank, thread, start, end, name in table]
    return _outermost(found)


def _outermost(found: list[Marked]) -> list[Marked]:
    """The steps among bands sorted by thread and start, longest first."""
    kept: list[Marked] = []
    at = 0
    while at < len(found):
        outer = found[at]
        past = at + 1
        while past < len(found) and _holds(outer, found[past]):
            past += 1
        kept += _chosen(outer, found[at + 1 : past])
        at = past
    return kept


def _holds(outer: Marked, inner: Marked) -> bool:
    same = (outer.rank, outer.thread) == (inner.rank, inner.thread)
    return same and inner.start >= outer.start and inner.end <= outer.end


def _chosen(outer: Marked, inside: list[Marked]) -> list[Marked]:
    inner = [one for one in _outermost(inside) if not one.mark.idle]
    if not inner:
        return [outer]
    if not outer.mark.exact and (len(inner) > 1 or inner[0].mark.phase not in (outer.mark.phase, "unknown")):
        return inner
    if outer.mark.phase == "unknown" or (len(inner) == 1 and not _counts(outer.mark) and _counts(inner[0].mark)):
        said = [one.mark for one in inner if one.mark.phase != "unknown" and not one.mark.draft]
        if said:
            return [outer._replace(mark=said[0])]
    return [outer]


def _counts(mark: Mark) -> bool:
    return mark.prefill is not None or mark.decode is not None
