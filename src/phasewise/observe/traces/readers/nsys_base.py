"""An SQLite export of Nsight Systems, opened without a chance to write: what tables it has, and columns as arrays.

A table leaves SQLite as text of fixed width, 16 hexadecimal digits a value, that numpy takes as it is. No Python object
is made per value, and SQLite works without Python's lock, so that two threads read two stretches of a table at once:
three times as fast as rows of tuples. Values are checked where they are read: SQLite stores any type in any column.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import numpy as np

from phasewise.errors import InputError
from phasewise.observe.traces.events import Fault, Ints

Result = TypeVar("Result")

STRETCH = 1 << 16
"""Rows that one query hands over."""

WORKERS = 2
_LARGEST = 2**63 - 1
_TIME_LIMIT = 2**61
"""73 years in ns: no time of a recording, and far enough from overflow to add and subtract."""


class Base:
    """One database, opened read-only and immutable: SQLite takes no lock and writes no journal beside it.

    Attributes:
        name: what it is called in messages.
        tables: the columns of each table (views and virtual tables are none: reading those would run their SQL).
        faults: what was wrong and got past.
    """

    def __init__(self, path: Path, name: str) -> None:
        self.name = name
        self.faults: list[Fault] = []
        self._uri = f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1"
        self._local = threading.local()
        self._opened: list[sqlite3.Connection] = []
        try:
            found = self._connection().execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").fetchall()
            self.tables = {
                table: frozenset(row[1] for row in self._connection().execute(f"PRAGMA table_info({quoted(table)})"))
                for table, sql in found
                if not str(sql).upper().startswith("CREATE VIRTUAL")
            }
        except sqlite3.Error as error:
            self.close()
            raise InputError(f"{name} is a damaged SQLite file ({error}): export it again with nsys export.") from None

    def close(self) -> None:
        """Close every connection."""
        for connection in self._opened:
            connection.close()

    def _connection(self) -> sqlite3.Connection:
        """The calling thread's own."""
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = sqlite3.connect(self._uri, uri=True, check_same_thread=False, isolation_level=None)
            connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("PRAGMA query_only = ON")
            connection.execute("PRAGMA temp_store = MEMORY")
            self._local.connection = connection
            self._opened.append(connection)
        return connection

    def has(self, table: str, *columns: str) -> bool:
        """Whether there is such a table with such columns."""
        return table in self.tables and self.tables[table].issuperset(columns)

    def value(self, table: str, column: str, otherwise: int) -> str:
        """SQL of an integer column: ``otherwise`` where it is absent, NULL, or holds text."""
        if column not in self.tables[table]:
            return str(otherwise)
        return f"iif({quoted(column)} <= {_LARGEST}, {quoted(column)}, {otherwise})"

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Rows of a small query; damage ends them early, as a fault."""
        return self._rows(sql, self.faults)

    def _rows(self, sql: str, faults: list[Fault]) -> list[tuple[Any, ...]]:
        got: list[tuple[Any, ...]] = []
        try:
            got.extend(self._connection().execute(sql))
        except (sqlite3.Error, OverflowError) as error:
            faults.append(Fault("damaged", f"part of {self.name} cannot be read ({error}): export it again."))
        return got

    def count(self, table: str) -> int:
        """Rows of a table, 0 when they cannot be counted."""
        found = self.rows(f"SELECT count(*) FROM {quoted(table)}")
        return int(found[0][0]) if found else 0

    def stretches(self, table: str) -> Iterator[str]:
        """Conditions that cut a table into stretches of `STRETCH` rows, by rowid."""
        first: int | None = -_LARGEST - 1
        while first is not None:
            sql = f"SELECT rowid FROM {quoted(table)} WHERE rowid >= {first} ORDER BY rowid LIMIT 1 OFFSET {STRETCH}"
            found = self._rows(sql, [])
            last = int(found[0][0]) if found else None
            yield f"rowid >= {first}" + (f" AND rowid < {last}" if last is not None else "")
            first = last

    def parallel(self, work: Callable[[str], Result], stretches: Iterable[str]) -> list[Result]:
        """Do ``work`` for each stretch on `WORKERS` threads; results in the stretches' order."""
        pool = ThreadPoolExecutor(WORKERS)
        try:
            return list(pool.map(work, stretches))
        finally:
            pool.shutdown(cancel_futures=True)

    def events(self, table: str, columns: Mapping[str, str], advance: Callable[[float], None]) -> dict[str, Ints]:
        """``start``, ``end`` and more columns (name to SQL, see `value`) of the rows that lie in time.

        A row whose times are missing, no number, beyond any recording or reversed is left out, as a fault.
        """
        if not self.has(table, "start", "end"):
            self.faults.append(Fault("missing", f"{table} has no start and end: its rows were not read."))
            return {name: np.zeros(0, np.int64) for name in ("start", "end", *columns)}
        whole = {"start": '"start"', "end": '"end"', **columns}
        count = self.count(table)
        got = self.integers(table, whole, f'"end" BETWEEN "start" AND {_TIME_LIMIT} AND "start" > -{_TIME_LIMIT}', advance)
        lost = count - len(got["start"])
        if lost > 0:
            self.faults.append(Fault("times", f"{lost} of {count} rows of {table} have no sound times and are left out."))
        return got

    def integers(
        self, table: str, columns: Mapping[str, str], where: str, advance: Callable[[float], None]
    ) -> dict[str, Ints]:
        """Integer columns of the rows that ``where`` holds for; ``advance`` hears the fraction that is done."""
        places = "%016x" * len(columns)
        values = ", ".join(columns.values())
        total, done = max(self.count(table), 1), 0

        def read(stretch: str) -> tuple[Ints, list[Fault]]:
            nonlocal done
            of = f"FROM {quoted(table)} WHERE {stretch} AND {where}"
            faults: list[Fault] = []
            packed = self._rows(f"SELECT group_concat(printf('{places}', {values}), '') {of}", faults)
            if faults:
                # A damaged page: row by row, up to the first that cannot be read.
                rows = self._rows(f"SELECT {', '.join(f'CAST({value} AS INTEGER)' for value in columns.values())} {of}", [])
                found = np.array(rows, np.int64).reshape(-1, len(columns))
            else:
                raw = bytes.fromhex(packed[0][0] or "")
                found = np.frombuffer(raw, ">i8").reshape(-1, len(columns))
            done += STRETCH
            advance(min(1.0, done / total))
            return np.ascontiguousarray(found.T, np.int64), faults

        parts = self.parallel(read, self.stretches(table))
        self.faults.extend([fault for _, faults in parts for fault in faults][:1])
        joined = np.concatenate([part for part, _ in parts], axis=1)
        return dict(zip(columns, joined, strict=True))


def quoted(name: str) -> str:
    """A name as SQL."""
    return '"' + name.replace('"', '""') + '"'
