"""The rows of a run, from wherever they lie: parts as they were written, or the one file that they became."""

from __future__ import annotations

import shutil
from collections.abc import Collection
from errno import EIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phasewise.isolate.ledger.schema import CHUNK_TYPES, PARTS, REQUEST_TYPES, WARMUP

Floats = NDArray[np.float64]

TABLES = {"requests": REQUEST_TYPES, "chunks": CHUNK_TYPES}
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
        partial, order = folder / f"{table}.partial", _ORDER[table]
        try:
            with duckdb.connect() as connection:
                source = connection.read_parquet([str(part) for part in parts])
                if unused:
                    trial = f"CASE WHEN request IN ({', '.join(map(str, sorted(unused)))}) THEN {WARMUP} ELSE trial END"
                    source = source.project(f"* REPLACE ({trial} AS trial)")
                source.order(order).write_parquet(str(partial), compression="zstd")
        except duckdb.Error as error:
            raise OSError(EIO, str(error).partition("\n")[0]) from error
        partial.rename(folder / f"{table}.parquet")
        for part in parts:
            part.unlink()
    discard(folder)


def discard(folder: Path) -> None:
    """Take away what is left of parts in ``folder``."""
    shutil.rmtree(folder / PARTS, ignore_errors=True)


def read(folder: Path, table: str, columns: str, where: str = "true") -> dict[str, NDArray[Any]]:
    """Some columns of a run's ``requests`` or ``chunks``, by name, nulls as NaN, in the order of the merged file.

    Raises:
        OSError: the rows cannot be read.
    """
    import duckdb

    merged = folder / f"{table}.parquet"
    files = [merged] if merged.exists() else sorted((folder / PARTS).glob(f"{table}-*.parquet"))
    if not files:
        return {name.strip().split(" ")[-1]: np.empty(0) for name in columns.split(",")}
    try:
        with duckdb.connect() as connection:
            rows = connection.read_parquet([str(file) for file in files]).filter(where).order(_ORDER[table])
            found = rows.project(columns).fetchnumpy()
    except duckdb.Error as error:
        raise OSError(EIO, str(error).partition("\n")[0]) from error
    return {name: _plain(values) for name, values in found.items()}


def _plain(values: NDArray[Any]) -> NDArray[Any]:
    if not np.ma.isMaskedArray(values):
        return values
    if values.dtype.kind in "iufb":
        return np.asarray(np.ma.filled(values.astype(np.float64), np.nan))
    return np.array(values.tolist(), "O")  # a masked one becomes None
