"""A graph's capture joined to its replays: its launches, in order, are the kernels that every replay runs.

An engine may trace the capture of its graphs into files of their own (bands ``capture_32_FULL``). A replay's kernels
carry no operator, and in some formats no name; the launches inside the capture have both.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from phasewise.observe.traces import attribution
from phasewise.observe.traces.annotations import is_capture
from phasewise.observe.traces.events import Ints, LaunchKind, Ops, Small, Trace
from phasewise.observe.traces.tables import joined, rows

AGREE = 0.9
"""Share of the named kernels of a replay that must stand in the capture's order: parallel branches may swap a few."""

_NAMELESS = frozenset(("", "unknown", "<unknown>", "Dispatch Task"))


class Piece(NamedTuple):
    """One captured graph: the launches of its kernels (rows of `Trace.launches`, by start)."""

    launches: Ints
    names: Small


def named(trace: Trace) -> tuple[Trace, str]:
    """``trace`` with names and operators of captured graphs given to the kernels of their replays; and what was done.

    A kernel's External id then points at a copy of the capture's operator, in the kernel's own rank, under an id of
    its own. A replay counts as that of a capture when it has as many kernels and `AGREE` of the named ones are the
    captured ones; without captures the trace comes back as it is, with "".
    """
    kernels = trace.kernels
    by = attribution.launched_by(trace.launches, kernels.rank, kernels.correlation, kernels.start)
    pieces = _pieces(trace, by)
    if not pieces:
        return trace, ""
    nameless = _nameless(trace)
    order, first, last = _replays(trace, by)
    source = np.full(len(kernels.start), -1, np.int64)
    matched, follow, by_length = 0, -1, _by_length(pieces)
    for begin, past in zip(first.tolist(), last.tolist(), strict=True):
        chosen = order[begin:past]
        if len(chosen) not in by_length:
            continue
        found = _match(*by_length[len(chosen)], kernels.name[chosen], nameless[chosen], follow)
        if found >= 0:
            source[chosen], follow, matched = pieces[found].launches, found, matched + 1
    said = f"{matched} of {len(first)} graph launches are replays of {len(pieces)} captured graphs"
    return (_given(trace, source, nameless) if matched else trace), said


def _pieces(trace: Trace, by: Ints) -> list[Piece]:
    """Every captured graph, in order: the launches inside a capture band that ran nothing, cut at capture calls."""
    bands, launches = trace.bands, trace.launches
    names = [index for index in np.unique(bands.name).tolist() if index >= 0 and is_capture(trace.names[index])]
    ran = np.zeros(len(launches.start), np.bool_)
    ran[by[by >= 0]] = True
    found: list[Piece] = []
    for band in np.flatnonzero(np.isin(bands.name, names)).tolist():
        inside = (launches.rank == bands.rank[band]) & (launches.thread == bands.thread[band])
        inside &= (launches.start >= bands.start[band]) & (launches.start <= bands.end[band])
        held = np.flatnonzero(inside)
        held = held[np.argsort(launches.start[held], kind="stable")]
        graph = np.cumsum(launches.kind[held] == LaunchKind.CAPTURE)
        kept = (launches.kind[held] == LaunchKind.KERNEL) & ~ran[held]
        for piece in np.unique(graph[kept]).tolist():
            mine = held[kept & (graph == piece)]
            found.append(Piece(mine, launches.kernel[mine]))
    return found


def _nameless(trace: Trace) -> NDArray[np.bool_]:
    empty = [index for index, name in enumerate(trace.names) if name in _NAMELESS]
    return np.isin(trace.kernels.name, [-1, *empty])


def _replays(trace: Trace, by: Ints) -> tuple[Ints, Ints, Ints]:
    """Kernels by graph launch (in order of time) and start; and where each launch's begin and end among them."""
    launches = trace.launches
    inside = np.flatnonzero(by >= 0)
    inside = inside[launches.kind[by[inside]] == LaunchKind.GRAPH]
    launch = by[inside]
    order = np.lexsort((trace.kernels.start[inside], launch, launches.start[launch], launches.rank[launch]))
    inside, launch = inside[order], launch[order]
    first = np.flatnonzero(np.concatenate(([True], launch[1:] != launch[:-1]))) if len(launch) else inside
    return inside, first, np.append(first[1:], len(launch))[: len(first)]


def _by_length(pieces: list[Piece]) -> dict[int, tuple[Ints, Small]]:
    """For each number of kernels the pieces that have as many, and their names, a row each."""
    lengths = np.array([len(piece.names) for piece in pieces])
    found: dict[int, tuple[Ints, Small]] = {}
    for length in np.unique(lengths).tolist():
        rows = np.flatnonzero(lengths == length)
        found[length] = rows, np.stack([pieces[row].names for row in rows.tolist()])
    return found


def _match(rows: Ints, captured: Small, names: Small, nameless: NDArray[np.bool_], follow: int) -> int:
    """The piece whose replay this is, -1 for none; of several as good, the one after the last replay's, in turn."""
    known = ~nameless
    score = (captured[:, known] == names[known]).mean(axis=1) if known.any() else np.full(len(rows), AGREE)
    if score.max() < AGREE:
        return -1
    best = rows[score == score.max()]
    later = best[best > follow]
    return int(later[0] if len(later) else best[0])


def _given(trace: Trace, source: Ints, nameless: NDArray[np.bool_]) -> Trace:
    """Names and operators of the launches ``source`` given to kernels that lack them."""
    kernels, launches, ops = trace.kernels, trace.launches, trace.ops
    has = source >= 0
    name = np.where(has & nameless, launches.kernel[source], kernels.name).astype(np.int32)
    operator = _operator(trace, source)
    lacks = np.flatnonzero((operator >= 0) & (kernels.external < 0))
    new, dense = np.unique(kernels.rank[lacks].astype(np.int64) << 40 | operator[lacks], return_inverse=True)
    after = 1 + max(int(table.external.max(initial=-1)) for table in (kernels, launches, ops))
    external = kernels.external.copy()
    external[lacks] = after + dense
    copied: Ops = rows(ops, new & ((1 << 40) - 1))._replace(
        rank=(new >> 40).astype(np.int32), external=after + np.arange(len(new), dtype=np.int64)
    )
    return trace._replace(kernels=kernels._replace(name=name, external=external), ops=joined(Ops, (ops, copied)))


def _operator(trace: Trace, source: Ints) -> Ints:
    """Row of the operator that each source launch belongs to by its External id, -1 none."""
    launches, ops = trace.launches, trace.ops
    has = np.flatnonzero(source >= 0)
    found = np.full(len(source), -1, np.int64)
    told = np.flatnonzero(ops.external >= 0)
    if not len(has) or not len(told):
        return found
    width = 1 + max(int(ops.external.max()), int(launches.external.max(initial=-1)))
    keys = ops.rank[told].astype(np.int64) * width + ops.external[told]
    order = np.argsort(keys, kind="stable")
    keys, told = keys[order], told[order]
    rank, external = launches.rank[source[has]].astype(np.int64), launches.external[source[has]]
    at = np.minimum(np.searchsorted(keys, rank * width + external), len(keys) - 1)
    hit = (keys[at] == rank * width + external) & (external >= 0)
    found[has[hit]] = told[at[hit]]
    return found
