"""The public traces, read by a few lines of their own: what is tested with them is not the reader."""

from __future__ import annotations

import gzip
import json
import sqlite3
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
from observe_log_files import shared

from phasewise.observe.traces import tables
from phasewise.observe.traces.events import Copies, Device, Kernels, Launches, LaunchKind, Replays, Source, Trace
from phasewise.observe.traces.tables import table


def shared_trace(name: str) -> tuple[Path, Trace]:
    """The path and the events of ``kineto/….json.gz`` or ``nsys/….sqlite``; the test is skipped without shared data."""
    path = trace_path(name)
    return path, _kineto(path) if name.startswith("kineto/") else _nsys(path)


def trace_path(name: str) -> Path:
    return shared(f"../traces/{name}")


def _kineto(path: Path) -> Trace:
    with gzip.open(path) as file:
        document = json.load(file, parse_float=Decimal)
    events = [event for event in document["traceEvents"] if event.get("ph") == "X"]
    origin = min(event["ts"] for event in events)
    names = tables.Names()

    def columns(*categories: str) -> tuple[list[Any], dict[str, Any]]:
        rows = [event for event in events if event.get("cat") in categories]
        start = [int((event["ts"] - origin) * 1000) for event in rows]
        return rows, {
            "start": np.array(start, np.int64),
            "end": np.array(
                [begin + int(event["dur"] * 1000) for begin, event in zip(start, rows, strict=True)], np.int64
            ),
            "name": np.array([names(event["name"]) for event in rows], np.int32),
            **{
                what: np.array([event["args"].get(what, -1) for event in rows], np.int64)
                for what in ("device", "stream", "correlation")
            },
        }

    def made(kind: Any, columns: dict[str, Any]) -> Any:
        return table(kind, {name: column for name, column in columns.items() if name in kind._fields})

    calls, launches = columns("cuda_runtime", "cuda_driver")
    launches["kind"] = np.array([_kind(event["name"]) for event in calls], np.int32)
    launches["rank"] = launches["thread"] = np.zeros(len(calls), np.int32)
    devices = tuple(Device(one.get("id", 0), one.get("name", "")) for one in document.get("deviceProperties", []))
    return tables.empty(Source(str(path), "Kineto JSON", devices=devices))._replace(
        kernels=made(Kernels, columns("kernel")[1]),
        copies=made(Copies, columns("gpu_memcpy", "gpu_memset")[1]),
        launches=made(Launches, launches),
        names=names.all,
    )


def _kind(name: str) -> int:
    if "GraphLaunch" in name:
        return LaunchKind.GRAPH
    return LaunchKind.KERNEL if "Launch" in name else LaunchKind.OTHER


def _nsys(path: Path) -> Trace:
    base = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    present = {row[0] for row in base.execute("select name from sqlite_master")}

    def made(kind: Any, tables_: tuple[str, ...], more: str = "") -> Any:
        found = []
        for one in tables_:
            if f"CUPTI_ACTIVITY_KIND_{one}" in present:
                what = f"select start, end, deviceId, streamId, correlationId{more} from CUPTI_ACTIVITY_KIND_{one}"
                found += base.execute(what).fetchall()
        keys = ("start", "end", "device", "stream", "correlation") + (("name",) if more else ())
        return table(kind, {key: np.array([row[place] for row in found], np.int64) for place, key in enumerate(keys)})

    names = dict(base.execute("select id, value from StringIds"))
    made_kernels = made(Kernels, ("KERNEL",), ", demangledName")
    kernels = made_kernels._replace(rank=np.zeros(len(made_kernels.start), np.int32))
    texts = tuple(names.get(place, "") for place in range(max(names) + 1))
    return tables.empty(Source(str(path), "Nsight Systems SQLite"))._replace(
        kernels=kernels,
        copies=made(Copies, ("MEMCPY", "MEMSET")),
        replays=made(Replays, ("GRAPH_TRACE",)),
        names=texts,
    )
