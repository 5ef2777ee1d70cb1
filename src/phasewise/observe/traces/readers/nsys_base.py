"""An SQLite export of Nsight Systems, opened without a chance to write: what tables it has, and columns as arrays.

A table leaves SQLite as text of fixed width, 16 hexadecimal digits a value, that numpy takes as it is: no Python object
is made per value, a third faster than rows of tuples, and SQLite works without Python's lock, so that another thread
reads another table meanwhile (with a `Base` of its own; two threads on one table only wait for SQLite's allocator).
Values are checked where they are read: SQLite stores any type in any column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from phasewise.errors import InputError
from phasewise.observe.traces.events import Fault, Ints
from phasewise.observe.traces.readers.sqlite import DAMAGE, connected, quoted, tables_of

STRETCH = 1 << 16
"""Rows that one query hands over."""

TIME_LIMIT = 2**61
"""73 years in ns: no time of a recording, and far enough from overflow to add and subtract."""

_LARGEST = 2**63 - 1

Advance = Callable[[float], None]
"""Hears the fraction of a table that is read."""


class Base:
    """One database, opened read-only and immutable: SQLite takes no lock and writes no journal beside it.

    Attributes:
        name: what it is called in messages.
        tables: the columns of each table (views and virtual tables are none: reading those would run their SQL).
        faults: what was wrong and got past.

    Raises:
        InputError: SQLite cannot open it.
    """

    def __init__(self, path: Path, name: str) -> None:
        self.name = name
        self.faults: list[Fault] = []
        self._stopped = False
        self._counts: dict[str, int] = {}
        self._connection = connected(path)
        try:
            self.tables = tables_of(self._connection)
        except DAMAGE as error:
            self._connection.close()
            # SQLite opens no file that is shorter than its header says, unless its schema may be repaired.
            self._connection = connected(path, "PRAGMA writable_schema = ON")
            try:
                self.tables = tables_of(self._connection)
            except DAMAGE:
                self._connection.close()
                raise InputError(f"{name} is a damaged SQLite file ({error}): export it again.") from None
            self.faults.append(Fault("truncated", f"{name} is cut off or damaged ({error}): what is left was read."))

    def __enter__(self) -> Base:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    def stop(self) -> None:
        """End the reading of another thread after its next stretch."""
        self._stopped = True

    def has(self, table: str, *columns: str) -> bool:
        """Whether there is such a table with such columns."""
        return table in self.tables and self.tables[table].issuperset(columns)

    def value(self, table: str, column: str, otherwise: int) -> str:
        """SQL of an integer column: ``otherwise`` where it is absent, NULL, or holds text."""
        if column not in self.tables[table]:
            return str(otherwise)
        return f"iif({quoted(column)} <= {_LARGEST}, {quoted(column)}, {otherwise})"

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Rows of a query; damage, and anything else that SQLite refuses, ends them early, as a fault."""
        got, broken = self._rows(sql)
        if broken:
            self._damaged(broken)
        return got

    def _rows(self, sql: str) -> tuple[list[tuple[Any, ...]], str]:
        got: list[tuple[Any, ...]] = []
        try:
            got.extend(self._connection.execute(sql))
        except DAMAGE as error:
            return got, str(error)
        return got, ""

    def _damaged(self, why: str) -> None:
        fault = Fault("damaged", f"a part of {self.name} cannot be read ({why}): export it again with nsys export.")
        if fault not in self.faults:
            self.faults.append(fault)

    def count(self, table: str) -> int:
        """Rows of a table, 0 when they cannot be counted."""
        if table not in self._counts:
            found = self.rows(f"SELECT count(*) FROM {quoted(table)}")
            self._counts[table] = int(found[0][0]) if found else 0
        return self._counts[table]

    def ends(self, table: str) -> tuple[int, int]:
        """The first and the last rowid of a table; of an empty or unreadable one those of no table."""
        of = f"FROM {quoted(table)}"
        found = self.rows(f"SELECT (SELECT min(rowid) {of}), (SELECT max(rowid) {of})")
        first, last = found[0] if found else (None, None)
        return (-_LARGEST - 1, _LARGEST) if first is None or last is None else (int(first), int(last))

    def stretches(self, table: str, advance: Advance) -> Iterator[str]:
        """Conditions that cut a table into stretches of `STRETCH` rows, by rowid."""
        total, done = max(self.count(table), 1), 0
        first, last = self.ends(table)
        dense = last - first + 1 == total
        while first <= last and not self._stopped:
            after = first + STRETCH if dense else self._after(table, first)
            yield f"rowid >= {first}" + (f" AND rowid < {after}" if after <= last else "")
            first, done = after, done + STRETCH
            advance(min(1.0, done / total))

    def _after(self, table: str, first: int) -> int:
        """The rowid that is `STRETCH` rows on: rows may have been deleted, or numbered by whoever wrote the file."""
        sql = f"SELECT rowid FROM {quoted(table)} WHERE rowid >= {first} ORDER BY rowid LIMIT 1 OFFSET {STRETCH}"
        found, _ = self._rows(sql)
        return int(found[0][0]) if found else _LARGEST + 1

    def events(self, table: str, columns: Mapping[str, str], advance: Advance) -> dict[str, Ints]:
        """``start``, ``end`` and more columns (name to SQL, see `value`) of the rows that lie in time.

        A row whose times are missing, no number, both 0 (CUPTI's "not collected"), beyond any recording or reversed is
        left out, as a fault.
        """
        whole = {"start": '"start"', "end": '"end"', **columns}
        if not self.has(table, "start", "end"):
            self.faults.append(Fault("missing", f"{table} has no start and end: its rows were not read."))
            return {name: np.zeros(0, np.int64) for name in whole}
        sound = f'"end" BETWEEN "start" AND {TIME_LIMIT} AND "start" > -{TIME_LIMIT} AND "end" <> 0'
        got = self.integers(table, whole, sound, advance)
        count = self.count(table)
        if lost := max(0, count - len(got["start"])):
            self.faults.append(Fault("damaged", f"{lost} of {count} rows of {table} have no sound times: left out."))
        return got

    def integers(self, table: str, columns: Mapping[str, str], where: str, advance: Advance) -> dict[str, Ints]:
        """Integer columns (name to SQL) of the rows that ``where`` holds for, in the table's order."""
        parts = [
            self._stretch(f"FROM {quoted(table)} WHERE {stretch} AND {where}", tuple(columns.values()))
            for stretch in self.stretches(table, advance)
        ]
        none = [np.zeros(0, np.int64)]
        return {name: np.concatenate([part[place] for part in parts] or none) for place, name in enumerate(columns)}

    def _stretch(self, of: str, values: tuple[str, ...]) -> Ints:
        """An array of columns by rows."""
        digits = "%016x" * len(values)
        packed, broken = self._rows(f"SELECT group_concat(printf('{digits}', {', '.join(values)}), '') {of}")
        if not broken:
            found = np.frombuffer(bytes.fromhex(packed[0][0] or ""), ">i8").reshape(-1, len(values))
        else:
            # A damaged page: row by row, up to the first that cannot be read.
            self._damaged(broken)
            rows, _ = self._rows(f"SELECT {', '.join(f'CAST({value} AS INTEGER)' for value in values)} {of}")
            found = np.array(rows, np.int64).reshape(-1, len(values))
        return np.ascontiguousarray(found.T, np.int64)
