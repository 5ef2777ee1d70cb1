"""``python -m phasewise.isolate.workload.writer FOLDER WORKER``: the child that writes rows as Parquet.

A Parquet file without its footer cannot be read, so rows are written as parts, each a whole file that appears under its
name at once. When standard input ends, however that came about, what is left is written.
"""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import numpy as np
from numpy.typing import NDArray

from phasewise.isolate.workload.rows import CHUNK_TYPES, PARTS, REQUEST_TYPES, Chunks, Frame, RequestRow

EVERY_S = 0.5
"""A part is written this often while rows come."""

_READ = 1 << 20


def main(arguments: list[str]) -> int:
    """Write until standard input ends; what goes wrong is one line on standard output, for the parent."""
    folder, worker = Path(arguments[0]) / PARTS, int(arguments[1])
    try:
        folder.mkdir(exist_ok=True)
        parts = _Parts(folder, worker)
        due = time.monotonic() + EVERY_S
        for frame in _frames(sys.stdin.fileno()):
            if frame is not None:
                parts.add(frame)
            if time.monotonic() >= due:
                parts.write()
                due = time.monotonic() + EVERY_S
        parts.write()
    except (OSError, msgspec.DecodeError, duckdb.Error) as error:
        print(str(error).partition("\n")[0], flush=True)
        return 1
    return 0


def _frames(fileno: int) -> Iterator[Frame | None]:
    """Frames as they come, None when none came for a while; ends with the input, a frame that was cut short dropped."""
    decoder, held = msgspec.msgpack.Decoder(Frame), bytearray()
    while True:
        if not select.select([fileno], [], [], EVERY_S)[0]:
            yield None
            continue
        data = os.read(fileno, _READ)
        if not data:
            return
        held += data
        while len(held) >= 4 and len(held) >= 4 + (size := int.from_bytes(held[:4], "little")):
            yield decoder.decode(bytes(held[4 : 4 + size]))
            del held[: 4 + size]


class _Parts:
    """Rows that are not written yet."""

    def __init__(self, folder: Path, worker: int) -> None:
        self._folder, self._worker = folder, worker
        self._requests: list[RequestRow] = []
        self._chunks: list[Chunks] = []
        self._number = 0
        self._connection = duckdb.connect(config={"threads": 1})

    def add(self, frame: Frame) -> None:
        self._requests += frame.requests
        self._chunks += frame.chunks

    def write(self) -> None:
        """A part of each table that has rows."""
        self._number += 1
        if self._requests:
            rows = self._requests
            columns = {name: _column([getattr(one, name) for one in rows], kind) for name, kind in _REQUESTS}
            self._part("requests", columns, REQUEST_TYPES)
        if self._chunks:
            split = [one.columns() for one in self._chunks]
            joined = {name: np.concatenate([columns[name] for columns in split]) for name in CHUNK_TYPES}
            joined["tokens"] = np.ma.masked_equal(joined["tokens"], -1)
            self._part("chunks", joined, CHUNK_TYPES)
        self._requests, self._chunks = [], []

    def _part(self, table: str, columns: dict[str, NDArray[Any]], types: dict[str, str]) -> None:
        path = self._folder / f"{table}-{self._worker:03}-{os.getpid()}-{self._number:06}.parquet"
        partial = path.with_suffix(".partial")
        self._connection.register("part", columns)
        cast = ", ".join(f"{name}::{kind} AS {name}" for name, kind in types.items())
        self._connection.sql(f"SELECT {cast} FROM part").write_parquet(str(partial))
        self._connection.unregister("part")
        partial.rename(path)


_REQUESTS = tuple(REQUEST_TYPES.items())
_FILL = {"BIGINT": 0, "DOUBLE": 0.0, "BOOLEAN": False, "VARCHAR": ""}
_DTYPE = {"BIGINT": "i8", "DOUBLE": "f8", "BOOLEAN": "?", "VARCHAR": "O"}


def _column(values: list[object], kind: str) -> NDArray[Any]:
    """A column with its nulls masked."""
    if kind == "VARCHAR":
        return np.array(values, "O")
    filled = np.array([_FILL[kind] if value is None else value for value in values], _DTYPE[kind])
    return np.ma.array(filled, mask=[value is None for value in values])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
