"""Traces written down by hand: kernels as (name, start, end), everything else by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from phasewise.observe.traces import tables
from phasewise.observe.traces.events import Copies, Device, Kernels, Launches, LaunchKind, Replays, Source, Trace
from phasewise.observe.traces.split import Split, Step
from phasewise.observe.traces.tables import table
from phasewise.record.trace import TracePhase

Row = tuple[Any, ...]


def trace(
    kernels: Sequence[Row] = (),
    *,
    copies: Sequence[Row] = (),
    replays: Sequence[Row] = (),
    launches: Sequence[Row] = (),
    sources: Sequence[Source] | None = None,
    stream: Sequence[int] | int = 7,
    rank: Sequence[int] | int = 0,
    device: Sequence[int] | int = 0,
    **more: Any,
) -> Trace:
    """A trace of ``(name, start, end[, correlation])`` kernels; copies and replays ``(start, end[, correlation])``;
    launches ``(name, kind, start, end, correlation)``."""
    names = tables.Names()

    def column(rows: Sequence[Row], place: int, default: int = -1) -> list[Any]:
        return [row[place] if len(row) > place else default for row in rows]

    def each(value: Sequence[int] | int, rows: Sequence[Row]) -> Any:
        return np.broadcast_to(np.asarray(value, np.int64), (len(rows),)) if isinstance(value, int) else list(value)

    made = table(
        Kernels,
        {
            "start": np.array(column(kernels, 1), np.int64),
            "end": np.array(column(kernels, 2), np.int64),
            "name": np.array([names(row[0]) for row in kernels], np.int32),
            "rank": each(rank, kernels),
            "device": each(device, kernels),
            "stream": each(stream, kernels),
            "correlation": np.array(column(kernels, 3), np.int64),
        },
    )
    calls = table(
        Launches,
        {
            "start": np.array(column(launches, 2), np.int64),
            "end": np.array(column(launches, 3), np.int64),
            "name": np.array([names(row[0]) for row in launches], np.int32),
            "kind": np.array(column(launches, 1), np.int32),
            "rank": np.zeros(len(launches)),
            "thread": np.zeros(len(launches)),
            "correlation": np.array(column(launches, 4), np.int64),
        },
    )
    empty = tables.empty(*(sources or (Source("a.json", "test", devices=(Device(0, "NVIDIA Test"),)),)))
    return empty._replace(
        kernels=made,
        copies=_plain(Copies, copies),
        replays=_plain(Replays, replays),
        launches=calls,
        names=names.all,
        **more,
    )


def _plain(kind: Any, rows: Sequence[Row]) -> Any:
    return table(
        kind,
        {
            "start": np.array([row[0] for row in rows], np.int64),
            "end": np.array([row[1] for row in rows], np.int64),
            "device": np.zeros(len(rows)),
            "stream": np.full(len(rows), 7),
            "correlation": np.array([row[2] if len(row) > 2 else -1 for row in rows], np.int64),
        },
    )


def split(
    made: Trace,
    kernel: Sequence[int],
    phases: Sequence[TracePhase],
    *,
    copy: Sequence[int] | None = None,
    replay: Sequence[int] | None = None,
    launch: Sequence[int] | None = None,
    stray: Sequence[int] | None = None,
    ranks: Sequence[int] | None = None,
    steps: Sequence[Step] | None = None,
) -> Split:
    """A split that says the step of each event (none by default); correlations find launches, as attribution does."""
    ids = [
        (place, int(made.launches.correlation[place]))
        for place in range(len(made.launches.start))
        if made.launches.kind[place] in (LaunchKind.KERNEL, LaunchKind.GRAPH)
    ]
    by = {correlation: place for place, correlation in ids}

    def found(correlations: Any) -> Any:
        return np.array([by.get(int(one), -1) for one in correlations], np.int64)

    def placed(step: Sequence[int] | None, of: Any) -> Any:
        return np.array(step if step is not None else [-1] * len(of.start), np.int32)

    default = tuple(
        Step(ranks[place] if ranks else 0, "", -1, 0, 0, phase, (), 1.0) for place, phase in enumerate(phases)
    )
    return Split(
        steps=tuple(steps) if steps is not None else default,
        kernel=np.array(kernel, np.int32),
        copy=placed(copy, made.copies),
        replay=placed(replay, made.replays),
        launch=placed(launch, made.launches),
        launched_by=found(made.kernels.correlation),
        replayed_by=found(made.replays.correlation),
        stray=np.array(stray if stray is not None else [0] * len(kernel), np.int32),
        how="",
    )
