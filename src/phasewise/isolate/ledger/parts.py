"""Rows as parts: whole Parquet files of a moment each, since one without its footer cannot be read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from phasewise.isolate.ledger.schema import CHUNK_TYPES, REQUEST_TYPES, Chunks, Frame, RequestRow

_REQUESTS = tuple(REQUEST_TYPES.items())
_FILL = {"BIGINT": 0, "DOUBLE": 0.0, "BOOLEAN": False, "VARCHAR": ""}
_DTYPE = {"BIGINT": "i8", "DOUBLE": "f8", "BOOLEAN": "?", "VARCHAR": "O"}


class Parts:
    """Writes frames into ``folder``. Each part appears under its name at once, and is named by the frames in it.

    Args:
        name: of whoever hands the frames over; what lies there under it is not written again.
        number: of the first frame that will come.
    """

    def __init__(self, folder: Path, name: str, number: int = 0) -> None:
        self._folder, self._name = folder, name
        self._requests: list[RequestRow] = []
        self._chunks: list[Chunks] = []
        self._begin = self.number = number
        self._have = {table: self._last(table) for table in ("requests", "chunks")}
        self._connection = duckdb.connect(config={"threads": 1})

    def add(self, frame: Frame) -> None:
        """Take the next frame."""
        if self.number > self._have["requests"]:
            self._requests += frame.requests
        if self.number > self._have["chunks"]:
            self._chunks += frame.chunks
        self.number += 1

    def write(self) -> None:
        """A part of each table that has rows.

        Raises:
            OSError, duckdb.Error: it cannot be written.
        """
        if self._requests:
            rows = self._requests
            columns = {name: _column([getattr(one, name) for one in rows], kind) for name, kind in _REQUESTS}
            self._part("requests", columns, REQUEST_TYPES)
        if self._chunks:
            split = [one.columns() for one in self._chunks]
            joined = {name: np.concatenate([columns[name] for columns in split]) for name in CHUNK_TYPES}
            joined["tokens"] = np.ma.masked_equal(joined["tokens"], -1)
            self._part("chunks", joined, CHUNK_TYPES)
        self._requests, self._chunks, self._begin = [], [], self.number

    def _last(self, table: str) -> int:
        """Number of the last frame whose rows of ``table`` are there; -1 for none."""
        there = self._folder.glob(f"{table}-{self._name}-*.parquet")
        return max((int(path.stem.rpartition("-")[2]) for path in there), default=-1)

    def _part(self, table: str, columns: dict[str, NDArray[Any]], types: dict[str, str]) -> None:
        path = self._folder / f"{table}-{self._name}-{self._begin:08}-{self.number - 1:08}.parquet"
        partial = path.with_suffix(".partial")
        self._connection.register("part", columns)
        cast = ", ".join(f"{name}::{kind} AS {name}" for name, kind in types.items())
        self._connection.sql(f"SELECT {cast} FROM part").write_parquet(str(partial))
        self._connection.unregister("part")
        partial.rename(path)


def _column(values: list[object], kind: str) -> NDArray[Any]:
    """A column with its nulls masked."""
    if kind == "VARCHAR":
        return np.array(values, "O")
    filled = np.array([_FILL[kind] if value is None else value for value in values], _DTYPE[kind])
    return np.ma.array(filled, mask=[value is None for value in values])
