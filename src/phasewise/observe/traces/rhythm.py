"""Where one pass of the model ends and the next begins, when nothing marks it: from the order of the launches.

Layers repeat within a pass; what comes once per pass lies between the attention of its last layer and that of the next
pass's first: logits, sampling, embedding. So a pass ends where a sampling or embedding kernel stands between two
attention kernels, or where a graph that holds a whole pass begins. Between sampling and embedding the host decides what
to run next: the boundary is its longest pause there, blocking calls not counted.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from phasewise.observe.traces.events import Ints, Small
from phasewise.observe.traces.tells import EMBED, SAMPLE

WHOLE = 4
"""Attention kernels from which on one launch is a whole pass: a layer has up to three (both halves of a batch, and the
reduction of a split)."""


class Calls(NamedTuple):
    """Calls of one thread (or, where no call was recorded, kernels of one device), by start.

    ``bits`` are those of the kernels it launched (tells.py), ``attention`` how many of them are attention; ``marker``
    is the name of one that samples or embeds, -1 for none; ``graph`` tells replays of graphs whose kernels are not
    listed apart, -1 for anything else.
    """

    start: Ints
    end: Ints
    bits: Small
    attention: Small
    marker: Small
    graph: Ints


def passes(calls: Calls) -> Ints:
    """First row of each pass, ascending; then one past the last row of the last. Empty when there is no pass."""
    core = np.flatnonzero((calls.attention > 0) | (calls.graph >= 0))
    if not len(core):
        return np.empty(0, np.int64)
    calls = _without_layers(calls, core)
    ends = np.flatnonzero(_breaks(calls, core))
    pause = _pauses(calls)
    inner = [_boundary(calls, pause, int(core[k]), int(core[k + 1])) for k in ends.tolist()]
    usual = float(np.median(pause[inner])) if inner else np.inf
    if usual < 3 * np.median(pause):
        usual = np.inf
    embedded = np.flatnonzero(calls.bits[: core[0]] & EMBED)
    first = _edge(pause, 1, int(embedded[-1] if len(embedded) else core[0]), usual, last=True)
    sampled = np.flatnonzero(calls.bits[core[-1] :] & SAMPLE)
    from_row = int(core[-1]) + (int(sampled[-1]) if len(sampled) else 0)
    past = _edge(pause, from_row + 1, len(pause) - 1, usual, last=False)
    return np.array([first, *inner, past], np.int64)


def _without_layers(calls: Calls, core: Ints) -> Calls:
    """The calls, without the bits of what comes with every layer (gating picks with top-k too), by name."""
    single = (calls.attention[core] > 0) & (calls.attention[core] < WHOLE)
    layer = np.concatenate(([False], single[1:] & single[:-1], [False]))
    before = np.searchsorted(core, np.arange(len(calls.start)), "right")
    rows = np.flatnonzero((calls.marker >= 0) & layer[before])
    held = np.unique(calls.marker[rows].astype(np.int64) * len(layer) + before[rows]) // len(layer)
    names, count = np.unique(held, return_counts=True)
    every = np.isin(calls.marker, names[2 * count > np.count_nonzero(layer)])
    return calls._replace(bits=np.where(every, 0, calls.bits).astype(np.int32))


def _breaks(calls: Calls, core: Ints) -> NDArray[np.bool_]:
    """True for each core after which a new pass begins before the next core."""
    single = calls.attention[core] < WHOLE
    twice = (calls.graph[core[1:]] == calls.graph[core[:-1]]) & (calls.graph[core[1:]] >= 0)
    single &= ~(np.append(twice, False) | np.append(False, twice))
    between = np.where(calls.attention >= WHOLE, 0, calls.bits & (SAMPLE | EMBED)) != 0
    seen = np.cumsum(between)
    marked = seen[core[1:] - 1] - seen[core[:-1]] > 0
    whole = ~single[:-1] | ~single[1:]
    breaks: NDArray[np.bool_] = marked | whole | _replayed(calls.graph[core])
    return breaks


def _replayed(graph: Ints) -> NDArray[np.bool_]:
    """True before a graph that this pass has replayed already: pieces of one pass differ, a whole pass comes again."""
    again = np.zeros(max(len(graph) - 1, 0), np.bool_)
    held: set[int] = set()
    for row in np.flatnonzero(graph >= 0).tolist():
        if graph[row] in held:
            again[row - 1] = True
            held.clear()
        held.add(int(graph[row]))
    return again


def _pauses(calls: Calls) -> Ints:
    """Time between the end of all calls before each call and its start; 0 for the first."""
    before = np.maximum.accumulate(calls.end)
    return np.concatenate(([0], np.maximum(calls.start[1:] - before[:-1], 0)))


def _boundary(calls: Calls, pause: Ints, core: int, following: int) -> int:
    """First row of the pass of ``following``, after that of ``core``."""
    bits = calls.bits[core + 1 : following]
    sampled, embedded = np.flatnonzero(bits & SAMPLE), np.flatnonzero(bits & EMBED)
    low = core + 1 + (int(sampled[-1]) + 1 if len(sampled) else 0)
    high = following
    eager = calls.attention[following] < WHOLE and calls.graph[following] < 0
    if len(embedded) and core + 1 + int(embedded[-1]) >= low and (len(sampled) or eager):
        high = core + 1 + int(embedded[-1])
    return low + int(np.argmax(pause[low : high + 1]))


def _edge(pause: Ints, low: int, high: int, usual: float, *, last: bool) -> int:
    """Where the first pass begins (or the last ends): at the nearest pause as long as those between passes."""
    long = np.flatnonzero(pause[low : high + 1] >= usual)
    if not len(long):
        return low - 1 if last else high + 1
    return low + int(long[-1 if last else 0])
