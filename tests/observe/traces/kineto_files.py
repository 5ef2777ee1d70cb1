"""Kineto traces that tests make up, and reading them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from phasewise.observe.traces.events import Trace
from phasewise.observe.traces.opened import Opened
from phasewise.observe.traces.readers import kineto

SHARED = Path(__file__).resolve().parents[4] / "shared" / "data" / "traces"

US = 4_909_914_679_591
"""A time of the kind that Kineto writes, in µs."""


def shared(name: str) -> Path:
    path = SHARED / name
    if not path.exists():
        pytest.skip("skipped: no shared data")
    return path


def span(cat: str, name: str, ts: float, dur: float, **args: Any) -> dict[str, Any]:
    """A complete event, 0 µs being `US`."""
    at = round(US + ts, 3)
    return {"ph": "X", "cat": cat, "name": name, "pid": 7, "tid": 7, "ts": at, "dur": dur, "args": args}


def kernel(name: str, ts: float, dur: float, **args: Any) -> dict[str, Any]:
    return span("kernel", name, ts, dur, **({"device": 0, "stream": 7, "correlation": 1} | args))


def events(count: int = 40) -> list[dict[str, Any]]:
    """A small trace of every kind of event: ``count`` kernels, and a call and an operator each."""
    made: list[dict[str, Any]] = [{"ph": "M", "name": "process_name", "ts": US, "pid": 7, "args": {"name": "python"}}]
    made.append(span("user_annotation", "prefill", 0, 1000.5))
    for i in range(count):
        made.append(span("python_function", f"model.py({i}): forward", 10 * i, 9.125, **{"Python parent id": None}))
        made.append(
            span("cpu_op", "aten::mm", 10 * i + 1, 5, **{"External id": i, "Input Dims": [[8, 16], [16, i % 3]]})
        )
        call = span("cuda_runtime", "cudaLaunchKernel", 10 * i + 2, 1.5, **{"External id": i, "correlation": 100 + i})
        made.append(call | {"tid": 8})
        made.append({"ph": "s", "id": 100 + i, "pid": 7, "tid": 8, "ts": US + 10 * i, "cat": "ac2g", "name": "ac2g"})
        more = {"External id": i, "correlation": 100 + i, "grid": [4, 2, 1], "block": [128, 1, 1]}
        made.append(kernel(f"gemm_{i % 5}<float, {i % 2}>", 10 * i + 5.001, 3.017, **more))
    return made


def document(made: list[dict[str, Any]], **header: Any) -> dict[str, Any]:
    return {"schemaVersion": 1, "baseTimeNanoseconds": 1_775_078_550_000_000_000, **header, "traceEvents": made}


def read(path: Path, content: bytes | str | Any) -> Trace:
    """The trace of a file with this content: bytes, text, or something to write as JSON."""
    if not isinstance(content, bytes):
        content = (content if isinstance(content, str) else json.dumps(content)).encode()
    file = path / "trace.json"
    file.write_bytes(content)
    return kineto.read(Opened(file), lambda what, share: None)


def same(one: Trace, other: Trace) -> bool:
    """Whether two traces hold the same, whatever the order of their names, threads and shapes."""
    return _spelled(one) == _spelled(other)


def _spelled(trace: Trace) -> list[Any]:
    tables: list[Any] = [trace.origin_ns]
    for kind in ("kernels", "copies", "launches", "bands", "ops"):
        table = getattr(trace, kind)
        columns = []
        for field, column in zip(table._fields, table, strict=True):
            known: tuple[Any, ...] | None = {
                "name": trace.names,
                "kernel": trace.names,
                "thread": trace.threads,
                "shape": trace.shapes,
            }.get(field if not (kind == "kernels" and field == "threads") else "")
            values = column.tolist()
            columns.append([known[value] if value >= 0 else None for value in values] if known is not None else values)
        tables.append(sorted(zip(*columns, strict=True), key=repr))
    return tables
