"""Whether the ranks of a job did the same, at the same time, without waiting for one of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from phasewise.observe.traces.events import Ints, Trace
from phasewise.observe.traces.kinds import Kinds
from phasewise.observe.traces.split import Split
from phasewise.observe.traces.verdicts import judged, unchecked
from phasewise.record.trace import Health, TraceStep
from phasewise.units import show

_WAITS = 0.1
"""A rank waits when over a tenth of the time of its steps goes by in collectives before the last rank has come."""


def together(trace: Trace, split: Split, steps: Sequence[TraceStep], kind: Kinds) -> Iterator[Health]:
    """The checks; nothing for one rank."""
    of = np.array([step.rank for step in steps], np.int64)
    ranks, counts = np.unique(of, return_counts=True)
    if len(ranks) < 2:
        return
    said = ", ".join(f"rank {rank}: {count:,}" for rank, count in zip(ranks.tolist(), counts.tolist(), strict=True))
    alike = len(set(counts.tolist())) == 1
    yield judged("steps of the ranks", not alike, f"the ranks did not do the same steps ({said})", f"equal ({said})")
    yield _clocks(split, steps, of, ranks, alike)
    span = np.array([step.span_s for step in steps])
    yield _in_step(trace, kind, {rank: float(span[of == rank].sum()) for rank in ranks.tolist()})


def _clocks(split: Split, steps: Sequence[TraceStep], of: Ints, ranks: Ints, alike: bool) -> Health:
    """The n-th step of a rank beside the n-th of every other: by its band on the CPU, which waits for no other rank."""
    check = "clocks of the ranks"
    start = np.array(
        [one.start / 1e9 if one.band >= 0 else step.start_s for one, step in zip(split.steps, steps, strict=True)]
    )
    span = np.array([step.span_s for step in steps])
    end = np.array([step.start_s for step in steps]) + span
    begun = np.array([start[of == rank].min() for rank in ranks])
    ended = np.array([end[of == rank].max() for rank in ranks])
    apart = bool(begun.max() > ended.min())
    aligned = "their clocks are not aligned, so only times within a rank mean something"
    if not alike:
        late = show(float(begun.max() - begun.min()), "s")
        return judged(check, apart, f"the ranks begin {late} apart: {aligned}", f"the ranks begin {late} apart")
    by_rank = np.stack([np.sort(start[of == rank]) for rank in ranks])
    late = by_rank.max(axis=0) - by_rank.min(axis=0)
    middle = float(np.median(late))
    words = f"the same step starts up to {show(float(late.max()), 's')} apart on different ranks, in the median "
    words += show(middle, "s")
    return judged(check, apart or middle > float(np.median(span)) > 0, f"{words}: {aligned}", words)


def _in_step(trace: Trace, kind: Kinds, spans: dict[int, float]) -> Health:
    """Who waits inside the collectives, and for whom: the rank that comes last to one is in it the shortest time."""
    check = "ranks in step"
    ranks = sorted(spans)
    length = _collectives(trace, kind, ranks)
    if not length.shape[1]:
        return unchecked(check, "the ranks show no collectives that belong together")
    waited = length - length.min(axis=0)
    longest = waited.max(axis=0)
    last = np.bincount(length.argmin(axis=0), longest, len(ranks))
    total = waited.sum(axis=1)
    waiting, late, worst = int(total.argmax()), int(last.argmax()), int(longest.argmax())
    seconds = show(int(total[waiting]) / 1e9, "s")
    one = f"in collective {worst + 1:,} of {length.shape[1]:,} {show(int(length[:, worst].max()) / 1e9, 's')} beside "
    one += show(int(length[:, worst].min()) / 1e9, "s")
    return judged(
        check,
        total[waiting] > _WAITS * spans[ranks[waiting]] * 1e9 > 0,
        f"rank {ranks[waiting]} waits {seconds} for rank {ranks[late]}, which comes last to the collectives ({one}): "
        "what it waits counts as communication",
        f"no rank waits long for another in the collectives, at most {seconds} in all",
    )


def _collectives(trace: Trace, kind: Kinds, ranks: Sequence[int]) -> Ints:
    """ns of each collective on each rank, a row per rank: from the first on, as long as the ranks do the same ones."""
    talks = np.array([family == "communication" for family in kind.family], np.bool_)[kind.of]
    kernels = trace.kernels
    rows = []
    for rank in ranks:
        mine = np.flatnonzero(talks & (kernels.rank == rank))
        rows.append(mine[np.argsort(kernels.start[mine], kind="stable")])
    count = min(map(len, rows))
    if not count:
        return np.zeros((len(ranks), 0), np.int64)
    every = np.stack([row[:count] for row in rows])
    name = kernels.name[every]
    other = np.flatnonzero((name != name[0]).any(axis=0))
    every = every[:, : other[0] if len(other) else count]
    return np.asarray(np.maximum(kernels.end - kernels.start, 0)[every])
