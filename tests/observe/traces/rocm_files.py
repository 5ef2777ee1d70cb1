"""Files in the forms of AMD's profilers, made for the tests, and what plain Python says of them."""

from __future__ import annotations

import gzip
import json
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from phasewise.observe.traces.events import Trace
from phasewise.observe.traces.opened import Opened


def shared(name: str) -> Path:
    path = Path(__file__).parents[3] / ".." / "shared" / "data" / "traces" / name
    if not path.exists():
        pytest.skip("skipped: no shared data")
    return path


def opened(path: Path, content: str | bytes | None = None) -> Opened:
    """``path``, with ``content`` written to it first when there is any."""
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return Opened(path)


def quiet(doing: str, fraction: float) -> None:
    assert 0 <= fraction <= 1


def union(intervals: Iterable[tuple[int, int]]) -> int:
    total, last = 0, -(2**63)
    for start, end in sorted(intervals):
        total += max(0, end - max(start, last))
        last = max(last, end)
    return total


def kernels(trace: Trace) -> list[tuple[str, int, int]]:
    return [
        (trace.names[name], int(start), int(end))
        for name, start, end in zip(trace.kernels.name, trace.kernels.start, trace.kernels.end, strict=True)
    ]


def bands(trace: Trace) -> list[tuple[str, int, int, str]]:
    rows = trace.bands
    return [
        (trace.names[name], int(start), int(end), trace.threads[thread].tid)
        for name, start, end, thread in zip(rows.name, rows.start, rows.end, rows.thread, strict=True)
    ]


def checks(trace: Trace) -> list[str]:
    return [fault.check for fault in trace.sources[0].faults]


KINDS: list[dict[str, Any]] = [
    {"kind": "NONE", "operations": []},
    {"kind": "HIP_RUNTIME_API", "operations": ["hipApiName", "hipLaunchKernel", "hipGraphLaunch", "hipMemcpyAsync"]},
    {"kind": "MARKER_CORE_RANGE_API", "operations": ["roctxMarkA", "roctxThreadRangeA"]},
    {"kind": "MEMORY_COPY", "operations": ["MEMORY_COPY_NONE", "MEMORY_COPY_HOST_TO_DEVICE"]},
    {"kind": "KERNEL_DISPATCH", "operations": []},
]


def dispatch(start: int, end: int, correlation: int, kernel: int = 1, **more: Any) -> dict[str, Any]:
    return {
        "size": 184,
        "kind": 4,
        "operation": 2,
        "thread_id": 7,
        "correlation_id": {"internal": correlation, "external": 0},
        "start_timestamp": start,
        "end_timestamp": end,
        "dispatch_info": {
            "size": 72,
            "agent_id": {"handle": 91},
            "queue_id": {"handle": 3},
            "kernel_id": kernel,
            "dispatch_id": correlation,
            "workgroup_size": {"x": 256, "y": 1, "z": 1},
            "grid_size": {"x": 1000, "y": 4, "z": 1},
        },
        "stream_id": {"handle": 5},
    } | more


def call(kind: int, operation: int, start: int, end: int, correlation: int, thread: int = 7) -> dict[str, Any]:
    return {
        "size": 48,
        "kind": kind,
        "operation": operation,
        "correlation_id": {"internal": correlation, "external": 0},
        "start_timestamp": start,
        "end_timestamp": end,
        "thread_id": thread,
    }


def process(records: dict[str, Any], pid: int = 11, messages: dict[int, str] | None = None) -> dict[str, Any]:
    return {
        "metadata": {"pid": pid, "init_time": 1, "command": ["python", "serve.py"]},
        "agents": [
            {"id": {"handle": 90}, "type": 1, "logical_node_type_id": 0, "name": "EPYC", "cu_count": 64},
            {
                "id": {"handle": 91},
                "type": 2,
                "logical_node_type_id": 0,
                "name": "gfx942",
                "product_name": "AMD Instinct MI300X",
                "cu_count": 304,
            },
        ],
        "counters": [],
        "strings": {
            "callback_records": [],
            "buffer_records": KINDS,
            "marker_api": [{"key": key, "value": value} for key, value in (messages or {}).items()],
        },
        "kernel_symbols": [
            {"kernel_id": 0, "kernel_name": "", "formatted_kernel_name": 0},
            {"kernel_id": 1, "kernel_name": "_Z4gemmv.kd", "formatted_kernel_name": "gemm()"},
            {"kernel_id": 2, "kernel_name": "norm.kd", "formatted_kernel_name": "norm"},
        ],
        "callback_records": {"counter_collection": []},
        "buffer_records": records,
    }


def document(*processes: dict[str, Any]) -> bytes:
    return json.dumps({"rocprofiler-sdk-tool": processes}, separators=(",", ":")).encode()


def packed(content: bytes) -> bytes:
    return gzip.compress(content, 1)


def database(path: Path, *scripts: str) -> Path:
    connection = sqlite3.connect(path)
    for script in scripts:
        connection.executescript(script)
    connection.commit()
    connection.close()
    return path
