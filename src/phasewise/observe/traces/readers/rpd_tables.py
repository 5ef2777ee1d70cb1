"""The tables of rpd (ROCm/rocmProfileData, rocpd_python/rocpd/schema_data/tableSchema.cmd), versions 2 and 3."""

from __future__ import annotations

from typing import Any

import numpy as np

from phasewise.observe.traces.events import NOT_SAID, Copies, Counters, Device, Kernels, Launches
from phasewise.observe.traces.readers import Progress
from phasewise.observe.traces.readers.rocm import Gathered, blocks, copy_kind
from phasewise.observe.traces.readers.rocpd_base import Base, ints

FORM = "rpd SQLite"

_MARKERS = ("UserMarker", "PytorchAutograd")
"""Names of the calls whose argument is a range's name."""

_OF_ITEMS = ("hipExtModuleLaunchKernel", "hipHccModuleLaunchKernel", "hipExtLaunchKernel")
"""Calls whose grid counts work-items, not blocks."""


def read(base: Base, got: Gathered, progress: Progress) -> tuple[Device, ...]:
    """Everything; the devices have numbers and no names."""
    strings: dict[int, str] = base.pairs("SELECT id, string FROM rocpd_string") if base.has("rocpd_string") else {}
    calls = _calls(base, got, strings)
    progress("reading", 0.4)
    devices = _ops(base, got, strings, calls)
    progress("reading", 0.9)
    _clocks(base, got)
    return tuple(Device(number, "") for number in sorted(devices))


def _calls(base: Base, got: Gathered, strings: dict[int, str]) -> dict[int, str]:
    """Launches and bands; the names of the calls that may have sizes, by their ids."""
    if not base.has("rocpd_api", "id", "pid", "tid", "start", "end", "apiName_id"):
        return {}
    texts = "rocpd_ustring" if base.has("rocpd_ustring") else "rocpd_string"
    markers = [key for key, name in strings.items() if name in _MARKERS]
    chosen = ", ".join(str(int(key)) for key in markers) or "NULL"
    for batch in base.batches(
        f"SELECT start, end, pid, tid, id, apiName_id FROM rocpd_api WHERE apiName_id NOT IN ({chosen})"
        if markers
        else "SELECT start, end, pid, tid, id, apiName_id FROM rocpd_api"
    ):
        start, end, pid, tid, key, name = zip(*batch, strict=True)
        names = [strings.get(it, "") for it in name]
        columns = {"start": ints(start), "end": ints(end, -2), "correlation": ints(key), "thread": got.on(pid, tid)}
        got.add(Launches, columns | got.calls(names))
    for batch in base.batches(
        f"SELECT A.start, A.end, A.pid, A.tid, B.string FROM rocpd_api A JOIN {texts} B ON B.id = A.args_id"
        f" WHERE A.apiName_id IN ({chosen})"
    ):
        start, end, pid, tid, name = zip(*batch, strict=True)
        got.ranges(ints(start), ints(end, -2), got.on(pid, tid), [str(it) for it in name])
    of_items = [key for key, name in strings.items() if name in _OF_ITEMS]
    chosen = ", ".join(str(int(key)) for key in of_items) or "NULL"
    return base.pairs(f"SELECT id, apiName_id FROM rocpd_api WHERE apiName_id IN ({chosen})")


def _ops(base: Base, got: Gathered, strings: dict[int, str], of_items: dict[int, Any]) -> set[int]:
    """Kernels and copies; the devices they ran on."""
    if not base.has("rocpd_op", "id", "gpuId", "queueId", "start", "end", "description_id", "opType_id"):
        return set()
    sizes = base.pairs("SELECT api_ptr_id, size FROM rocpd_copyapi") if base.has("rocpd_copyapi", "size") else {}
    shapes = _shapes(base, of_items)
    launched = base.pairs("SELECT op_id, api_id FROM rocpd_api_ops") if base.has("rocpd_api_ops") else {}
    devices: set[int] = set()
    for batch in base.batches("SELECT start, end, id, gpuId, queueId, description_id, opType_id FROM rocpd_op"):
        ops = [(*row[:5], strings.get(row[5], ""), strings.get(row[6], "")) for row in batch]
        for table, chosen in (
            (Kernels, [op for op in ops if not op[6].startswith(("Copy", "FillBuffer", "Mem", *_NO_WORK))]),
            (Copies, [op for op in ops if op[6].startswith(("Copy", "FillBuffer", "Mem"))]),
        ):
            if not chosen:
                continue
            start, end, key, gpu, queue, name, kind = zip(*chosen, strict=True)
            call = [launched.get(it, NOT_SAID) for it in key]
            columns: dict[str, Any] = {
                "start": ints(start),
                "end": ints(end, -2),
                "device": ints(gpu),
                "stream": ints(queue),
                "correlation": ints(call),
            }
            devices.update(np.unique(columns["device"]).tolist())
            if table is Copies:
                columns["kind"] = np.array([copy_kind(it) for it in kind], np.int64)
                columns["bytes"] = ints([sizes.get(it, 0) for it in call], 0)
            else:
                columns["name"] = got.named([one or other for one, other in zip(name, kind, strict=True)])
                shape = [shapes.get(it, (0, 0)) for it in call]
                columns["blocks"] = ints([many for many, _ in shape], 0)
                columns["threads"] = ints([each for _, each in shape], 0)
            got.add(table, columns)
    return devices


_NO_WORK = ("Barrier", "Marker")


def _shapes(base: Base, of_items: dict[int, Any]) -> dict[int, tuple[int, int]]:
    """Blocks and threads by launch call."""
    axes = [f"{of}{axis}" for of in ("grid", "workgroup") for axis in "XYZ"]
    if not base.has("rocpd_kernelapi", "api_ptr_id", *axes):
        return {}
    shapes: dict[int, tuple[int, int]] = {}
    for batch in base.batches(f"SELECT api_ptr_id, {', '.join(axes)} FROM rocpd_kernelapi"):
        for call, *axis in zip(*(ints(column, 0).tolist() for column in zip(*batch, strict=True)), strict=True):
            grid, group = axis[:3], axis[3:]
            items = grid if call in of_items else [many * each for many, each in zip(grid, group, strict=True)]
            shapes[call] = blocks(items, group)
    return shapes


def _clocks(base: Base, got: Gathered) -> None:
    if not base.has("rocpd_monitor", "deviceType", "deviceId", "monitorType", "start", "value"):
        return
    for batch in base.batches(
        "SELECT start, deviceId, CAST(value AS REAL) FROM rocpd_monitor"
        " WHERE deviceType = 'gpu' AND monitorType = 'sclk'"
    ):
        start, device, value = zip(*batch, strict=True)
        name = np.full(len(batch), got.names("sclk [MHz]"), np.int32)
        got.add(Counters, {"time": ints(start), "device": ints(device), "value": np.array(value, float), "name": name})
