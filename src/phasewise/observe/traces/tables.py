"""Making, joining and choosing rows of the event model's tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar, get_type_hints

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phasewise.observe.traces import events
from phasewise.observe.traces.events import (
    Bands,
    Copies,
    Counters,
    Kernels,
    Launches,
    Measured,
    Ops,
    Replays,
    Source,
    Totals,
    Trace,
)

Table = TypeVar("Table", Kernels, Copies, Replays, Launches, Bands, Ops, Counters, Measured, Totals)

_DTYPES: dict[Any, Any] = {events.Ints: np.int64, events.Small: np.int32, events.Floats: np.float64}


def table(kind: type[Table], columns: dict[str, ArrayLike] | None = None, rows: int = 0) -> Table:
    """A table from some of its columns; the others are -1 (ids), 0 (sizes and times) or NaN, ``rows`` long.

    ``rows`` is taken from the columns when there are any.
    """
    given = {name: np.asarray(column) for name, column in (columns or {}).items()}
    rows = len(next(iter(given.values()))) if given else rows
    hints = get_type_hints(kind)
    made: list[Any] = []
    for name in kind._fields:
        dtype = _DTYPES[hints[name]]
        made.append(
            given[name].astype(dtype, copy=False) if name in given else np.full(rows, _unsaid(name, dtype), dtype)
        )
    return kind(*made)


def _unsaid(name: str, dtype: Any) -> float:
    if dtype is np.float64:
        return float("nan")
    return 0 if name in _SIZES else events.NOT_SAID


_SIZES = frozenset(
    (
        "start",
        "end",
        "time",
        "node",
        "blocks",
        "threads",
        "bytes",
        "instances",
        "total",
        "least",
        "most",
        "rank",
        "kind",
    )
)
"""Columns in which 0 is what "not said" means: sizes, times, and a rank when there is one file."""


def rows(one: Table, chosen: NDArray[np.generic]) -> Table:
    """The rows of ``one`` that a mask or an index array chooses."""
    columns: Any = (column[chosen] for column in one)
    return type(one)(*columns)


def joined(kind: type[Table], tables: Sequence[Table]) -> Table:
    """All rows of ``tables``, in their order."""
    if not tables:
        return table(kind)
    if len(tables) == 1:
        return tables[0]
    columns: Any = (np.concatenate(parts) for parts in zip(*tables, strict=True))
    return kind(*columns)


def empty(*sources: Source) -> Trace:
    """A trace without events: readers put their tables into it with ``_replace``."""
    return Trace(
        names=(),
        threads=(),
        shapes=(),
        sources=sources,
        origin_ns=0,
        kernels=table(Kernels),
        copies=table(Copies),
        replays=table(Replays),
        launches=table(Launches),
        bands=table(Bands),
        ops=table(Ops),
        counters=table(Counters),
        measured=table(Measured),
        totals=table(Totals),
    )


class Names:
    """Distinct strings in order of first sight, as indices."""

    def __init__(self) -> None:
        self.index: dict[str, int] = {}

    def __call__(self, name: str) -> int:
        """Index of ``name``."""
        return self.index.setdefault(name, len(self.index))

    @property
    def all(self) -> tuple[str, ...]:
        """Every name, by index."""
        return tuple(self.index)
