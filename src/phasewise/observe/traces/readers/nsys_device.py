"""Kernels, copies, graph replays and runtime calls of an Nsight Systems export.

``correlationId`` links what ran to the call that started it; the kernels of one graph launch share it (node mode), and
a whole replay is one row of GRAPH_TRACE (graph mode).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from phasewise.observe.traces.events import (
    NOT_SAID,
    Copies,
    CopyKind,
    Ints,
    Kernels,
    Launches,
    LaunchKind,
    Replays,
    Small,
)
from phasewise.observe.traces.readers.nsys_base import Base
from phasewise.observe.traces.readers.nsys_names import PROCESS, Processes, Threads, call, interned, strings
from phasewise.observe.traces.tables import Names, joined, table

KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"
MEMCPY = "CUPTI_ACTIVITY_KIND_MEMCPY"
MEMSET = "CUPTI_ACTIVITY_KIND_MEMSET"
GRAPH_TRACE = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
CUDA = (KERNEL, RUNTIME, MEMCPY, MEMSET, GRAPH_TRACE)

_COPY_KINDS = {
    1: CopyKind.HOST_TO_DEVICE,
    2: CopyKind.DEVICE_TO_HOST,
    3: CopyKind.HOST_TO_DEVICE,
    4: CopyKind.DEVICE_TO_HOST,
    **dict.fromkeys((5, 6, 7, 8, 13), CopyKind.DEVICE_TO_DEVICE),
    10: CopyKind.PEER,
    11: CopyKind.HOST_TO_DEVICE,
    12: CopyKind.DEVICE_TO_HOST,
}
"""ENUM_CUDA_MEMCPY_OPER of the export: host, device, array (on the device), peer, and the three of unified memory."""

Raw = dict[str, Ints]


class Activity(NamedTuple):
    """What the CUDA tables hold."""

    kernels: Kernels
    copies: Copies
    replays: Replays
    launches: Launches


def read(base: Base, names: Names, threads: Threads, progress: Callable[[str, float], None]) -> Activity:
    """Everything of the CUDA tables that the file has."""
    raw: dict[str, Raw] = {}
    for one, columns in _columns(base).items():
        raw[one] = base.events(one, columns, lambda done, one=one: progress(one, done))  # type: ignore[misc]
        key = "thread" if one == RUNTIME else "process"
        said = raw[one][key] > 0
        raw[one]["process"] = np.where(said, raw[one][key] & PROCESS, NOT_SAID)
    processes = Processes(rows["process"] for rows in raw.values())
    for rows in raw.values():
        rows["correlation"] = processes.fold(rows["correlation"], rows["process"])
    devices = _Devices(base)
    for one, rows in raw.items():
        if one != RUNTIME:
            rows["device"] = devices(rows["device"], rows["process"])
    kernels = _kernels(base, names, raw.pop(KERNEL)) if KERNEL in raw else table(Kernels)
    copies = joined(Copies, [_copies(raw.pop(one)) for one in (MEMCPY, MEMSET) if one in raw])
    replays = _replays(raw.pop(GRAPH_TRACE)) if GRAPH_TRACE in raw else table(Replays)
    launches = table(Launches)
    if RUNTIME in raw:
        launches = _launches(base, names, threads, raw.pop(RUNTIME), kernels.correlation)
    return Activity(kernels, copies, replays, launches)


def _columns(base: Base) -> dict[str, dict[str, str]]:
    """Of each table that is there: the SQL of the columns that are read, with what absent ones stand for."""
    found: dict[str, dict[str, str]] = {}
    for one in CUDA:
        if one not in base.tables:
            continue

        def value(column: str, otherwise: int = NOT_SAID, one: str = one) -> str:
            return base.value(one, column, otherwise)

        found[one] = {"correlation": value("correlationId")}
        if one == RUNTIME:
            found[one] |= {"thread": value("globalTid"), "name": value("nameId")}
            continue
        found[one] |= {"process": value("globalPid"), "device": value("deviceId"), "stream": value("streamId")}
        if one == KERNEL:
            name = next((c for c in ("demangledName", "shortName", "mangledName") if base.has(one, c)), "demangledName")
            found[one] |= {
                "name": value(name),
                "blocks": _product(base, ("gridX", "gridY", "gridZ")),
                "threads": _product(base, ("blockX", "blockY", "blockZ")),
                "graph": value("graphId", 0),
                "node": value("graphNodeId", 0),
            }
        elif one == GRAPH_TRACE:
            found[one] |= {"graph": value("graphExecId" if base.has(one, "graphExecId") else "graphId")}
        else:
            found[one] |= {"bytes": value("bytes", 0)}
            if one == MEMCPY:
                found[one] |= {"kind": value("copyKind", 0)}
    return found


def _product(base: Base, columns: tuple[str, ...]) -> str:
    return "*".join(f'"{column}"' for column in columns) if base.has(KERNEL, *columns) else "0"


def _kernels(base: Base, names: Names, rows: Raw) -> Kernels:
    node = np.maximum(rows["node"], 0)
    # CUPTI's node ids carry the graph in their upper half; exports before 3.24 have no column of its own for it.
    graph = np.where(rows["graph"] > 0, rows["graph"], np.where(node >= 2**32, node >> 32, NOT_SAID))
    return table(
        Kernels,
        {
            **{key: rows[key] for key in ("start", "end", "device", "stream", "correlation")},
            "blocks": np.maximum(rows["blocks"], 0),
            "threads": np.clip(rows["threads"], 0, 2**31 - 1),
            "name": interned(base, names, rows["name"], "kernels"),
            "graph": graph,
            "node": node,
        },
    )


def _copies(rows: Raw) -> Copies:
    kind = np.full(len(rows["start"]), CopyKind.SET, np.int32)
    if "kind" in rows:
        kind[:] = CopyKind.OTHER
        for number, meaning in _COPY_KINDS.items():
            kind[rows["kind"] == number] = meaning
    chosen = ("start", "end", "device", "stream", "correlation", "bytes")
    return table(Copies, {**{key: rows[key] for key in chosen}, "kind": kind})


def _replays(rows: Raw) -> Replays:
    return table(Replays, {key: rows[key] for key in ("start", "end", "device", "stream", "correlation", "graph")})


def _launches(base: Base, names: Names, threads: Threads, rows: Raw, started: Ints) -> Launches:
    distinct, inverse = np.unique(rows["name"], return_inverse=True)
    known = strings(base, distinct)
    calls = [call(known.get(int(one), "(unnamed)")) for one in distinct]
    name = np.array([names(plain) for plain, _ in calls] or [0], np.int32)[inverse]
    kind = np.array([int(kind) for _, kind in calls] or [0], np.int32)[inverse]
    thread = threads(rows["thread"])
    marks = {plain: names(plain) for plain, _ in calls}
    captured = (kind == LaunchKind.KERNEL) & _in_capture(name, thread, rows["start"], marks)
    captured &= ~np.isin(rows["correlation"], started)
    kind[captured] = LaunchKind.CAPTURE
    chosen = ("start", "end", "correlation")
    return table(Launches, {**{key: rows[key] for key in chosen}, "name": name, "thread": thread, "kind": kind})


def _in_capture(name: Small, thread: Small, start: Ints, marks: dict[str, int]) -> NDArray[np.bool_]:
    """Whether the last mark on each call's thread was a BeginCapture, not an EndCapture: it launches nothing then."""
    mark = np.zeros(len(name), np.int8)
    for plain, index in marks.items():
        if "BeginCapture" in plain or "EndCapture" in plain:
            mark[name == index] = 1 if "BeginCapture" in plain else -1
    order = np.lexsort((start, thread)) if mark.any() else np.zeros(0, np.int64)
    inside = np.zeros(len(name), bool)
    if len(order):
        place = np.arange(len(order))
        last = np.maximum.accumulate(np.where(mark[order] != 0, place, 0))
        inside[order] = (mark[order][last] == 1) & (thread[order][last] == thread[order])
    return inside


class _Devices:
    """CUDA numbers devices per process (CUDA_VISIBLE_DEVICES); TARGET_INFO_CUDA_DEVICE says which GPU each one is."""

    def __init__(self, base: Base) -> None:
        self._gpus: dict[tuple[int, int], int] = {}
        if base.has("TARGET_INFO_CUDA_DEVICE", "gpuId", "cudaId", "pid"):
            for gpu, cuda, pid in base.rows("SELECT gpuId, cudaId, pid FROM TARGET_INFO_CUDA_DEVICE"):
                if isinstance(gpu, int) and isinstance(cuda, int) and isinstance(pid, int):
                    self._gpus[pid, cuda] = gpu

    def __call__(self, device: Ints, process: Ints) -> Ints:
        """The GPU of each row, its device number where nothing says."""
        gpu = np.clip(device, NOT_SAID, 2**31 - 1)
        for (pid, cuda), real in self._gpus.items():
            if real != cuda:
                gpu = np.where((device == cuda) & (process != NOT_SAID) & (process >> 24 & 0xFFFFFF == pid), real, gpu)
        return gpu
