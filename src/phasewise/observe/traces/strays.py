"""Kernels so far from the rest of their step that they would stretch its span."""

from __future__ import annotations

import numpy as np

from phasewise.observe.traces.events import Floats, Ints, Kernels, Small

FAR, SMALL = 0.1, 0.01
"""A stray lies further from its step than a tenth of the step's kernel time, and holds under a hundredth of that."""


def strays(kernels: Kernels, step: Small, stream: Ints, steps: int) -> Small:
    """1 for stray kernels, 0 for the others.

    The kernels of a step form groups, cut where nothing of it runs for long. A group that holds next to nothing and
    runs beside the stream that does the step's work (a bookkeeping kernel that overtakes the previous step) is stray.
    On the working stream itself a pause is the step's own: a launch-bound step is full of them.
    """
    stray = np.zeros(len(step), np.int32)
    inside = np.flatnonzero(step >= 0)
    if not len(inside):
        return stray
    order = inside[np.lexsort((kernels.start[inside], step[inside]))]
    place, start, end = step[order].astype(np.int64), kernels.start[order], kernels.end[order]
    length = (end - start).astype(np.float64)
    total = np.bincount(place, length, steps)
    first = np.concatenate(([True], place[1:] != place[:-1]))
    base = place * (int(end.max() - start.min()) + 1)
    reach = np.maximum.accumulate(end + base)
    far = np.concatenate(([0], (start + base)[1:] - reach[:-1])) > FAR * total[place]
    group = np.cumsum(first | far) - 1
    if group[-1] + 1 == len(np.unique(place)):
        return stray
    weight = np.bincount(group, length)
    slight = weight[group] < SMALL * total[place]
    stray[order[slight & (stream[order] != _working(place, stream[order], length, steps)[place])]] = 1
    return stray


def _working(place: Ints, stream: Ints, length: Floats, steps: int) -> Ints:
    """The stream with most kernel time of each step."""
    streams = int(stream.max()) + 1
    pair, dense = np.unique(place * streams + stream, return_inverse=True)
    time = np.bincount(dense, length)
    best = np.full(steps, -1, np.int64)
    order = np.argsort(time, kind="stable")
    best[pair[order] // streams] = pair[order] % streams
    return best
