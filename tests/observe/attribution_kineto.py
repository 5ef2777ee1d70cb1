"""The shared Kineto traces as event tables, read plainly: no code of the readers, whose mistakes could cancel out."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from phasewise.observe.traces import tables
from phasewise.observe.traces.events import Bands, Copies, Kernels, Launches, LaunchKind, Ops, Source, Thread, Trace

SHARED = Path(__file__).parents[3] / "shared" / "data" / "traces"


def plain(name: str, rank: int = 0, names: tables.Names | None = None) -> Trace:
    """One file: kernels, copies, launches, bands and operators; skips where there is no shared data."""
    path = SHARED / name
    if not path.exists():
        pytest.skip("skipped: no shared data")
    document = json.loads(gzip.decompress(path.read_bytes()))
    events = [event for event in document["traceEvents"] if event.get("ph") == "X"]
    names, shapes, threads = names or tables.Names(), tables.Names(), tables.Names()
    rows: dict[Any, list[dict[str, int]]] = {kind: [] for kind in (Kernels, Copies, Launches, Bands, Ops)}
    for event in events:
        kind, args = _CATEGORIES.get(event["cat"]), event.get("args", {})
        if kind is None:
            continue
        start = round(float(event["ts"]) * 1000)
        dims = args.get("Input Dims")
        rows[kind].append(
            {
                "start": start,
                "end": start + round(float(event["dur"]) * 1000),
                "name": names(event["name"]),
                "rank": rank,
                "thread": threads(f"{event['pid']} {event['tid']}"),
                "device": args.get("device", -1),
                "stream": args.get("stream", -1),
                "correlation": args.get("correlation", -1),
                "external": args.get("External id", -1),
                "kind": _launch_kind(event["name"]) if kind is Launches else 0,
                "kernel": names(args["kernel"]) if "kernel" in args else -1,
                "shape": shapes(json.dumps(dims)) if dims else -1,
            }
        )
    made = {
        kind.__name__.lower(): tables.table(
            kind, {column: np.array([one[column] for one in held]) for column in held[0] if column in kind._fields}
        )
        for kind, held in rows.items()
        if held
    }
    said = tuple(Thread(rank, *text.split()) for text in threads.all)
    trace = tables.empty(Source(name, "Kineto JSON"))
    return trace._replace(names=names.all, shapes=shapes.all, threads=said, **made)


def unmarked(trace: Trace) -> Trace:
    """The trace without a band."""
    return trace._replace(bands=tables.table(Bands))


def _launch_kind(name: str) -> LaunchKind:
    if "GraphLaunch" in name:
        return LaunchKind.GRAPH
    if "Launch" in name:
        return LaunchKind.KERNEL
    return LaunchKind.COPY if "Memcpy" in name or "Memset" in name else LaunchKind.OTHER


_CATEGORIES: dict[str, Any] = {
    "kernel": Kernels,
    "gpu_memcpy": Copies,
    "gpu_memset": Copies,
    "cuda_runtime": Launches,
    "cuda_driver": Launches,
    "user_annotation": Bands,
    "cpu_op": Ops,
}
