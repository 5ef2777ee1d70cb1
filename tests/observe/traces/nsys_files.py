"""Exports of Nsight Systems for the tests: small ones written by hand, and where the shared ones are."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from phasewise.observe.traces.events import Trace
from phasewise.observe.traces.opened import Opened
from phasewise.observe.traces.readers import nsys_sqlite

SHARED = Path(__file__).parents[4] / "shared" / "data" / "traces" / "nsys"
PID = 0x1000000 * 0x0001000000 + 7 * 0x1000000
"""Serialised id of process 7: host part, then the pid, then no thread."""
TID = PID + 9

KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"
NVTX = "NVTX_EVENTS"
STRINGS = {1: "cudaLaunchKernel_v7000", 2: "cudaGraphLaunch_v10000", 10: "void gemm<int>(T1)", 11: "gemm", 20: "decode"}

Rows = Sequence[Mapping[str, object]]


def shared(name: str) -> Path:
    path = SHARED / name
    if not path.exists():
        pytest.skip("skipped: no shared data")
    return path


def export(path: Path, tables: Mapping[str, Rows], strings: Mapping[int, str] = STRINGS) -> Path:
    """A database with a column for every key of a table's rows, INTEGER but for text."""
    base = sqlite3.connect(path)
    base.execute("CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL)")
    base.executemany("INSERT INTO StringIds VALUES (?, ?)", strings.items())
    for table, rows in tables.items():
        columns = list(dict.fromkeys(key for row in rows for key in row))
        types = {"text": "TEXT", "name": "TEXT", "metricName": "TEXT", "value": "ANY"}
        typed = ", ".join(f'"{column}" {types.get(column, "INTEGER")}' for column in columns)
        base.execute(f'CREATE TABLE "{table}" ({typed})')
        into = f'INSERT INTO "{table}" VALUES ({", ".join("?" * len(columns))})'
        base.executemany(into, [[row.get(column) for column in columns] for row in rows])
    base.commit()
    base.close()
    return path


def kernel(start: int, end: int, correlation: int, **more: object) -> dict[str, object]:
    usual = {"deviceId": 0, "streamId": 7, "globalPid": PID, "demangledName": 10, "shortName": 11}
    return {"start": start, "end": end, "correlationId": correlation, **usual, **more}


def call(start: int, end: int, correlation: int, name: int = 1, **more: object) -> dict[str, object]:
    return {"start": start, "end": end, "correlationId": correlation, "nameId": name, "globalTid": TID, **more}


def band(start: object, end: object, text: str | None, kind: int = 59, **more: object) -> dict[str, object]:
    return {"start": start, "end": end, "eventType": kind, "text": text, "globalTid": TID, **more}


def read(path: Path) -> Trace:
    opened = Opened(path)
    assert nsys_sqlite.sniff(opened)
    return nsys_sqlite.read(opened, lambda what, done: None)


def named(trace: Trace, index: Sequence[int]) -> list[str]:
    return [trace.names[int(one)] for one in index]
