"""Where each step lies on the devices: one stretch per step, and one per step and device."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from phasewise.observe.traces.events import Ints, Trace
from phasewise.observe.traces.split import Split

_LIMITS = np.iinfo(np.int64)


class Stretch(NamedTuple):
    """A step on a device, from its first to its last kernel or graph replay, strays left out; ns.

    ``kernels`` counts the strays too, as the report does. ``device`` is None for the step as a whole. A step that put
    nothing on a device is where its CPU band is.
    """

    step: int
    device: int | None
    start: int
    end: int
    kernels: int


def stretches(trace: Trace, split: Split) -> Iterator[Stretch]:
    """Every step as a whole, then every step on each device."""
    kernels, stray = trace.kernels, split.stray.astype(bool)
    step = np.concatenate([split.kernel, split.replay]).astype(np.int64)
    device = np.concatenate([kernels.device, trace.replays.device]).astype(np.int64)
    start = np.concatenate([np.where(stray, _LIMITS.max, kernels.start), trace.replays.start])
    end = np.concatenate([np.where(stray, _LIMITS.min, kernels.end), trace.replays.end])
    count = np.concatenate([np.ones(len(kernels.start), np.int64), np.zeros(len(split.replay), np.int64)])
    inside = step >= 0
    events = [column[inside] for column in (step, start, end, count)]
    found = {key: (first, last, n) for key, first, last, n in _grouped(*events)}
    for at, one in enumerate(split.steps):
        first, last, n = found.get(at, (one.start, one.end, 0))
        yield Stretch(at, None, first, last, n)
    lanes = np.unique(device[inside])
    key = step[inside] * max(1, len(lanes)) + np.searchsorted(lanes, device[inside])
    for both, first, last, n in _grouped(key, *events[1:]):
        at, lane = divmod(both, len(lanes))
        if first < _LIMITS.max:  # else nothing but strays of the step is on this device
            yield Stretch(at, int(lanes[lane]), first, last, n)


def _grouped(key: Ints, start: Ints, end: Ints, count: Ints) -> Iterator[tuple[int, int, int, int]]:
    """For each distinct key: itself, its least start, its greatest end, the sum of its counts."""
    if not len(key):
        return
    order = np.argsort(key, kind="stable")
    key = key[order]
    first = np.flatnonzero(np.diff(key, prepend=key[0] - 1))
    columns = (
        key[first],
        np.minimum.reduceat(start[order], first),
        np.maximum.reduceat(end[order], first),
        np.add.reduceat(count[order], first),
    )
    yield from zip(*(column.tolist() for column in columns), strict=True)


def tracks(found: Iterable[Stretch]) -> Iterator[tuple[int, Stretch]]:
    """Each stretch, by start, and the number of the track that it goes on: two that overlap never share one."""
    ends: list[int] = []
    for one in sorted(found, key=lambda stretch: (stretch.start, stretch.end)):
        track = next((at for at, end in enumerate(ends) if end <= one.start), len(ends))
        ends[track:] = [one.end, *ends[track + 1 :]]
        yield track, one
