"""Rows as parts: whole Parquet files of a moment each, since one without its footer cannot be read."""

from __future__ import annotations

from pathlib import Path

import duckdb

from phasewise.isolate.ledger.columns import as_columns, last, typed
from phasewise.isolate.ledger.schema import TABLES, Frame
from phasewise.record.disk import told, whole


class Parts:
    """Writes frames into ``folder``. Each part appears under its name at once, and is named by the frames in it.

    Args:
        name: of whoever hands the frames over; what lies there under it is not written again.
        number: of the first frame that will come.
    """

    def __init__(self, folder: Path, name: str, number: int = 0) -> None:
        self._folder, self._name = folder, name
        self._frame = Frame(requests=[], chunks=[])
        self._begin = self.number = number
        self._have = {table: last(folder, name, table) for table in TABLES}
        self._connection = duckdb.connect(config={"threads": 1})

    def add(self, frame: Frame) -> None:
        """Take the next frame."""
        if self.number > self._have["requests"]:
            self._frame.requests += frame.requests
        if self.number > self._have["chunks"]:
            self._frame.chunks += frame.chunks
        self.number += 1

    def write(self) -> None:
        """A part of each table that has rows.

        Raises:
            OSError: it cannot be written.
        """
        for table, types in TABLES.items():
            if rows := as_columns([self._frame], table):
                path = self._folder / f"{table}-{self._name}-{self._begin:08}-{self.number - 1:08}.parquet"
                with told(), whole(path) as partial:
                    self._connection.register("part", rows)
                    self._connection.sql(f"SELECT {typed(types)} FROM part").write_parquet(str(partial))
                    self._connection.unregister("part")
        self._frame, self._begin = Frame(requests=[], chunks=[]), self.number
