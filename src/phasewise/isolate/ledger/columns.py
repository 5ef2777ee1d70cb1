"""Rows as columns, and which of them lie in a part."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phasewise.isolate.ledger.schema import CHUNK_TYPES, REQUEST_TYPES, Frame

Columns = dict[str, NDArray[Any]]

_FILL = {"BIGINT": 0, "DOUBLE": 0.0, "BOOLEAN": False, "VARCHAR": ""}
_DTYPE = {"BIGINT": "i8", "DOUBLE": "f8", "BOOLEAN": "?", "VARCHAR": "O"}


def as_columns(frames: Sequence[Frame], table: str) -> Columns:
    """The rows of ``table`` in ``frames``, a masked array where some are null; empty for no rows."""
    if table == "requests":
        rows = [one for frame in frames for one in frame.requests]
        return {
            name: _column([getattr(one, name) for one in rows], kind) for name, kind in REQUEST_TYPES.items() if rows
        }
    split = [one.columns() for frame in frames for one in frame.chunks]
    if not split:
        return {}
    joined: Columns = {name: np.concatenate([columns[name] for columns in split]) for name in CHUNK_TYPES}
    joined["tokens"] = np.ma.masked_equal(joined["tokens"], -1)
    return joined


def typed(types: dict[str, str]) -> str:
    """A list of columns for SELECT, each of its type."""
    return ", ".join(f"{name}::{kind} AS {name}" for name, kind in types.items())


def last(folder: Path, name: str, table: str) -> int:
    """Number of the last frame of ``name`` whose rows of ``table`` are in ``folder``; -1 for none."""
    there = folder.glob(f"{table}-{name}-*.parquet")
    return max((int(path.stem.rpartition("-")[2]) for path in there), default=-1)


def _column(values: list[object], kind: str) -> NDArray[Any]:
    """A column with its nulls masked."""
    if kind == "VARCHAR":
        return np.array(values, "O")
    filled = np.array([_FILL[kind] if value is None else value for value in values], _DTYPE[kind])
    return np.ma.array(filled, mask=[value is None for value in values])
