"""The rows of a run, from wherever they lie: parts as they were written, or the one file that they became."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phasewise.isolate.ledger.columns import as_columns, typed
from phasewise.isolate.ledger.schema import PARTS, TABLES, WARMUP, Frame
from phasewise.record.disk import told, whole

Floats = NDArray[np.float64]

_ORDER = {"requests": "trial, request", "chunks": "trial, request, read"}


def merge(folder: Path, unused: Collection[int] = ()) -> None:
    """Make one file of each table from the parts of all workers in ``folder``/rows, and take the parts away.

    Requests whose numbers are ``unused``, which no figure uses as it turned out, become warm-up.

    Raises:
        OSError: it cannot be done; the parts are still there.
    """
    import duckdb

    for table in TABLES:
        parts = sorted((folder / PARTS).glob(f"{table}-*.parquet"))
        if not parts:
            continue
        with told(), whole(folder / f"{table}.parquet") as partial, duckdb.connect() as connection:
            source = connection.read_parquet([str(part) for part in parts])
            if unused:
                trial = f"CASE WHEN request IN ({', '.join(map(str, sorted(unused)))}) THEN {WARMUP} ELSE trial END"
                source = source.project(f"* REPLACE ({trial} AS trial)")
            source.order(_ORDER[table]).write_parquet(str(partial), compression="zstd")
        for part in parts:
            part.unlink()
    discard(folder)


def discard(folder: Path) -> None:
    """Take away what is left of parts in ``folder``."""
    shutil.rmtree(folder / PARTS, ignore_errors=True)


def read(
    folder: Path, table: str, columns: str, where: str = "true", rest: Sequence[Frame] = ()
) -> dict[str, NDArray[Any]]:
    """Some columns of a run's ``requests`` or ``chunks``, by name, nulls as NaN, in the order of the merged file.

    ``rest`` are rows that are in no file.

    Raises:
        OSError: the rows cannot be read.
    """
    import duckdb

    merged = folder / f"{table}.parquet"
    files = [merged] if merged.exists() else sorted((folder / PARTS).glob(f"{table}-*.parquet"))
    unwritten = as_columns(rest, table)
    if not files and not unwritten:
        return {name.strip().split(" ")[-1]: np.empty(0) for name in columns.split(",")}
    with told(), duckdb.connect() as connection:
        sources = [connection.read_parquet([str(file) for file in files])] if files else []
        if unwritten:
            connection.register("rest", unwritten)
            sources.append(connection.sql(f"SELECT {typed(TABLES[table])} FROM rest"))
        rows = sources[0].union(sources[1]) if len(sources) > 1 else sources[0]
        found = rows.filter(where).order(_ORDER[table]).project(columns).fetchnumpy()
    return {name: _plain(values) for name, values in found.items()}


def _plain(values: NDArray[Any]) -> NDArray[Any]:
    if not np.ma.isMaskedArray(values):
        return values
    if values.dtype.kind in "iufb":
        return np.asarray(np.ma.filled(values.astype(np.float64), np.nan))
    return np.array(values.tolist(), "O")  # a masked one becomes None
