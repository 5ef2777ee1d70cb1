"""A trace laid out by its steps: what ran in each, from when to when, and in which phase. All times are integer ns."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from phasewise.observe.traces.busy import Cover, cover, heads_of, ordered
from phasewise.observe.traces.events import NOT_SAID, Ints, LaunchKind, Small, Trace
from phasewise.observe.traces.split import Split
from phasewise.record.trace import TRACE_PHASES

PHASES = len(TRACE_PHASES)


class Laid(NamedTuple):
    """What the parts of the section share.

    Attributes:
        phase: of each step, an index into TRACE_PHASES.
        kernel_phase: of each kernel; -1 outside the steps.
        duration: of each kernel.
        order: the kernels that belong to steps, by step and start.
        first, last: of each step, its kernels' and replays' first start and last end, strays left out; of its copies
            where it has neither.
        device: of each step, that of its first kernel; -1 without kernels.
        cover: kernels, copies and replays of each step over each other, copies only as far as they lie within it.
        row, at: for each row of ``cover.order``, its kernel (-1 for a copy or a replay) and its step.
        how: of each kernel, the LaunchKind that started it, -1 unknown.
    """

    phase: NDArray[np.int8]
    kernel_phase: NDArray[np.int8]
    duration: Ints
    order: Ints
    first: Ints
    last: Ints
    device: Ints
    cover: Cover
    row: Ints
    at: Small
    how: NDArray[np.int8]


def lay(trace: Trace, split: Split) -> Laid:
    """Lay ``trace`` out by the steps of ``split``."""
    steps = len(split.steps)
    kernels = trace.kernels
    phase = np.array([TRACE_PHASES.index(step.phase) for step in split.steps], np.int8)
    kernel_phase = np.full(len(kernels.start), NOT_SAID, np.int8)
    inside = split.kernel >= 0
    kernel_phase[inside] = phase[split.kernel[inside]]
    held = np.flatnonzero(inside)
    order = held[ordered(split.kernel[held], kernels.start[held])]
    first, last = _bounds(trace, split, steps)
    device = np.full(steps, NOT_SAID, np.int64)
    heads = heads_of(split.kernel[order])
    device[split.kernel[order][heads]] = kernels.device[order][heads]
    covered, row, at = _covered(trace, split, first, last)
    return Laid(
        phase=phase,
        kernel_phase=kernel_phase,
        duration=np.maximum(kernels.end - kernels.start, 0),
        order=order,
        first=first,
        last=last,
        device=device,
        cover=covered,
        row=row,
        at=at,
        how=_launched(trace, split),
    )


def _calm(split: Split) -> NDArray[np.bool_]:
    """Kernels that belong to a step and are no strays."""
    return np.asarray((split.kernel >= 0) & (split.stray == 0))


def _bounds(trace: Trace, split: Split, steps: int) -> tuple[Ints, Ints]:
    calm, replayed = _calm(split), split.replay >= 0
    step = np.concatenate([split.kernel[calm], split.replay[replayed]])
    start = np.concatenate([trace.kernels.start[calm], trace.replays.start[replayed]])
    end = np.concatenate([trace.kernels.end[calm], trace.replays.end[replayed]])
    bare = np.bincount(step, minlength=steps) == 0
    copied = split.copy >= 0
    copied[copied] = bare[split.copy[copied]]
    whole = cover(
        np.concatenate([step, split.copy[copied]]),
        np.concatenate([start, trace.copies.start[copied]]),
        np.concatenate([end, trace.copies.end[copied]]),
        steps,
    )
    return whole.first, whole.last


def _covered(trace: Trace, split: Split, first: Ints, last: Ints) -> tuple[Cover, Ints, Small]:
    calm, replayed = _calm(split), split.replay >= 0
    copied = split.copy >= 0
    of = split.copy[copied]
    copies = [np.clip(times[copied], first[of], last[of]) for times in (trace.copies.start, trace.copies.end)]
    within = (trace.copies.start[copied] <= last[of]) & (trace.copies.end[copied] >= first[of])
    parts = (
        (split.kernel[calm], trace.kernels.start[calm], trace.kernels.end[calm]),
        (of[within], copies[0][within], copies[1][within]),
        (split.replay[replayed], trace.replays.start[replayed], trace.replays.end[replayed]),
    )
    step, start, end = (np.concatenate([part[column] for part in parts]) for column in range(3))
    covered = cover(step, start, end, len(first))
    kernel = np.full(len(step), NOT_SAID, np.int64)
    kernel[: int(calm.sum())] = np.flatnonzero(calm)
    return covered, kernel[covered.order], step[covered.order]


def _launched(trace: Trace, split: Split) -> NDArray[np.int8]:
    """How each kernel was started: by its launch; without one, by whether it is a node of a graph."""
    how = np.where(trace.kernels.node > 0, LaunchKind.GRAPH, NOT_SAID).astype(np.int8)
    known = split.launched_by >= 0
    how[known] = trace.launches.kind[split.launched_by[known]]
    return how


def of_phase(phase: NDArray[np.int8], step: Small) -> NDArray[np.int8]:
    """The phase of each event by its step, -1 outside."""
    found = np.full(len(step), NOT_SAID, np.int8)
    inside = step >= 0
    found[inside] = phase[step[inside]]
    return found
