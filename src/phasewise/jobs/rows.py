"""Bulk rows beside a run, as Parquet."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from phasewise.record.disk import told, whole


def write(rows: Sequence[msgspec.Struct], path: Path) -> None:
    """Write ``rows``, all of one struct type, as one Parquet file with a column per field; none for no rows.

    Raises:
        OSError: it cannot be written.
    """
    if not rows:
        return
    import duckdb
    import numpy as np

    columns = {}
    for field in msgspec.structs.fields(type(rows[0])):
        values = [getattr(row, field.name) for row in rows]
        columns[field.name] = np.array(values, dtype=_dtype(values))
    with told(), whole(path) as partial, duckdb.connect() as connection:
        connection.register("columns", columns)
        connection.table("columns").write_parquet(str(partial))


def _dtype(values: list[object]) -> str:
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {bool} or kinds <= {str} or not kinds:
        return "O"
    # A count that some server did not give is NaN, so such a column is of floats.
    return "i8" if kinds == {int} and None not in values else "f8"
