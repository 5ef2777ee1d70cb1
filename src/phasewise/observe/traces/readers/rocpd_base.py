"""An SQLite file of AMD's profilers, opened so that nothing can be written to it or beside it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phasewise.errors import InputError
from phasewise.observe.traces.events import NOT_SAID, Fault
from phasewise.observe.traces.readers.sqlite import DAMAGE, connected, tables_of

_BATCH = 20_000
"""Rows that are fetched at a time."""

_LARGEST = 2**62
"""No time or id is larger: room to add and subtract."""


class Base:
    """One database. ``tables`` are the columns of each table; views are none, because reading one runs its SQL."""

    def __init__(self, path: Path, name: str) -> None:
        self.name = name
        self.faults: list[Fault] = []
        self._connection = connected(path)
        try:
            # A table with a quote in its name is nobody's: what reads them writes names as they are.
            self.tables = {table: held for table, held in tables_of(self._connection).items() if '"' not in table}
        except DAMAGE as error:
            self.close()
            raise InputError(f"{name} is a damaged SQLite file ({error}): record or copy it again.") from None

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def has(self, table: str, *columns: str) -> bool:
        """Whether there is such a table with such columns."""
        return table in self.tables and self.tables[table].issuperset(columns)

    def batches(self, sql: str) -> Iterator[list[tuple[Any, ...]]]:
        """Rows of a query; damage ends them early, as a fault."""
        try:
            cursor = self._connection.execute(sql)
            while batch := cursor.fetchmany(_BATCH):
                yield batch
        except DAMAGE as error:
            self.faults.append(Fault("damaged", f"A part of it cannot be read ({error}); copy or record it again."))

    def pairs(self, sql: str) -> dict[Any, Any]:
        """A query of two columns as a mapping."""
        return {row[0]: row[1] for batch in self.batches(sql) for row in batch}


def ints(values: Any, otherwise: int = NOT_SAID) -> NDArray[np.int64]:
    """A column of integers; SQLite columns may hold anything, and what is no (sane) number becomes ``otherwise``."""
    try:
        found = np.array(values, np.int64)
    except (TypeError, ValueError, OverflowError):
        found = np.array([_int(value, otherwise) for value in values], np.int64)
    return np.where(np.abs(found) < _LARGEST, found, otherwise)


def _int(value: object, otherwise: int) -> int:
    try:
        number = int(value)  # type: ignore[call-overload]
    except (TypeError, ValueError, OverflowError):
        return otherwise
    return number if abs(number) < _LARGEST else otherwise
