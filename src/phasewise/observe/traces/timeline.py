"""A trace as bars for a picture: the steps, their bands on the host, what ran on each device, thinned for an eye."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from phasewise.observe.traces.busy import codes, heads_of, intervals, ordered
from phasewise.observe.traces.events import Ints, Trace
from phasewise.observe.traces.families import FAMILIES
from phasewise.observe.traces.kinds import Kinds
from phasewise.observe.traces.split import Split
from phasewise.record.trace import TRACE_PHASES, Bar, TraceStep

_KINDS = (*FAMILIES, "memory copy", "graph replay")
"""What a bar of a device may be: a kernel's family, or one of these two."""


class _Lane(NamedTuple):
    """Rows that are drawn on one line: ns from start to end, and a code of ``kinds``."""

    name: str
    start: Ints
    end: Ints
    code: NDArray[np.signedinteger]
    kinds: Sequence[str]
    label: Callable[[int], str]


def bars(
    trace: Trace, split: Split, steps: Sequence[TraceStep], kind: Kinds, limit: int
) -> tuple[tuple[Bar, ...], str]:
    """At most ``limit`` bars, and what was joined in them, "" when every event has its own.

    A fifth of them goes to the steps, a fifth to the host, the rest to the devices in equal parts.
    """
    devices = _devices(trace, kind)
    lanes = [(_steps(steps), limit // 5), (_host(split), limit // 5)]
    lanes += [(lane, 3 * limit // 5 // len(devices)) for lane in devices]
    drawn = [_drawn(lane, allowed) for lane, allowed in lanes]
    rows, count = sum(len(lane.start) for lane, _ in lanes), sum(map(len, drawn))
    note = (
        f"{rows:,} events are drawn as {count:,} bars: short ones that stand together share one" if count < rows else ""
    )
    return tuple(bar for lane in drawn for bar in lane), note


def _steps(steps: Sequence[TraceStep]) -> _Lane:
    start = np.array([round(step.start_s * 1e9) for step in steps], np.int64)
    return _Lane(
        name="steps",
        start=start,
        end=start + np.array([round(step.span_s * 1e9) for step in steps], np.int64),
        code=np.array([TRACE_PHASES.index(step.phase) for step in steps], np.int64),
        kinds=TRACE_PHASES,
        label=lambda place: steps[place].label or steps[place].phase,
    )


def _host(split: Split) -> _Lane:
    marked = [step for step in split.steps if step.band >= 0]
    return _Lane(
        name="host",
        start=np.array([step.start for step in marked], np.int64),
        end=np.array([step.end for step in marked], np.int64),
        code=np.array([TRACE_PHASES.index(step.phase) for step in marked], np.int64),
        kinds=TRACE_PHASES,
        label=lambda place: marked[place].label,
    )


def _devices(trace: Trace, kind: Kinds) -> list[_Lane]:
    every = intervals(trace)
    if not len(every.start):
        return []
    family = np.array([FAMILIES.index(one) for one in kind.family], np.int8)[kind.of]
    others = np.repeat([len(FAMILIES), len(FAMILIES) + 1], [len(trace.copies.start), len(trace.replays.start)])
    code = np.concatenate([family, others.astype(np.int8)])
    where, found = codes(every.rank, every.device)
    several = len({rank for rank, _ in found}) > 1

    def lane(number: int, rank: int, device: int) -> _Lane:
        chosen = np.flatnonzero(where == number)

        def label(place: int) -> str:
            row = int(chosen[place])
            return kind.names[kind.of[row]] if row < len(kind.of) else _KINDS[code[row]]

        name = f"{'cpu' if trace.on_cpu else 'gpu'} {max(device, 0)}"
        name = f"rank {rank} {name}" if several else name
        return _Lane(name, every.start[chosen], every.end[chosen], code[chosen], _KINDS, label)

    return [lane(number, rank, device) for number, (rank, device) in enumerate(found)]


def _drawn(lane: _Lane, limit: int) -> list[Bar]:
    """The bars of a lane: one a row, or one for all rows shorter than a window, at most ``limit``."""
    rows = len(lane.start)
    length = np.maximum(lane.end - lane.start, 0)
    if rows <= limit:
        return [
            _bar(lane, int(lane.start[row]), int(length[row]), int(lane.code[row]), lane.label(row))
            for row in range(rows)
        ]
    windows = max(limit // 2, 1)
    begin = int(lane.start.min())
    width = max(-(-(int((lane.start + length).max()) - begin + 1) // windows), 1)
    long = np.flatnonzero(length >= width)[:windows]
    made = [
        _bar(lane, int(lane.start[row]), int(length[row]), int(lane.code[row]), lane.label(row))
        for row in long.tolist()
    ]
    short = np.flatnonzero(length < width)
    return made + _joined(lane, short, (lane.start[short] - begin) // width)


def _joined(lane: _Lane, rows: Ints, window: Ints) -> list[Bar]:
    if not len(rows):
        return []
    rows = rows[ordered(window, lane.start[rows])]
    window = np.sort(window)
    heads = heads_of(window)
    counts = np.diff(np.append(heads, len(rows)))
    number = np.repeat(np.arange(len(heads)), counts)
    length = np.maximum(lane.end[rows] - lane.start[rows], 0)
    spent = np.bincount(number * len(lane.kinds) + lane.code[rows], length + 1, len(heads) * len(lane.kinds))
    most = spent.reshape(len(heads), -1).argmax(axis=1)
    ends = np.maximum.reduceat(lane.start[rows] + length, heads)
    made = []
    for place, head in enumerate(heads.tolist()):
        first, count = int(lane.start[rows[head]]), int(counts[place])
        kind = lane.kinds[most[place]]
        label = lane.label(int(rows[head])) if count == 1 else f"{count:,} together, most of their time {kind}"
        made.append(_bar(lane, first, int(ends[place]) - first, int(most[place]), label))
    return made


def _bar(lane: _Lane, start: int, length: int, code: int, label: str) -> Bar:
    return Bar(lane=lane.name, start_s=start / 1e9, length_s=length / 1e9, kind=lane.kinds[code], label=label)
