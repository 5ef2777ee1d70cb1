"""The tables of rpd (ROCm/rocmProfileData, rocpd_python/rocpd/schema_data/tableSchema.cmd), versions 2 and 3."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from phasewise.observe.traces.events import NOT_SAID, Copies, Counters, Device, Kernels, Launches
from phasewise.observe.traces.readers import Progress
from phasewise.observe.traces.readers.calls import copy_kind
from phasewise.observe.traces.readers.rocm import Gathered, blocks
from phasewise.observe.traces.readers.rocpd_base import Base, ints

FORM = "rpd SQLite"

_MARKERS = ("UserMarker", "PytorchAutograd")
"""Names of the calls whose argument is a range's name."""

_OF_ITEMS = ("hipExtModuleLaunchKernel", "hipHccModuleLaunchKernel", "hipExtLaunchKernel")
"""Calls whose grid counts work-items, not blocks."""


def read(base: Base, got: Gathered, progress: Progress) -> tuple[Device, ...]:
    """Everything; the devices have numbers and no names."""
    strings: dict[int, str] = base.pairs("SELECT id, string FROM rocpd_string") if base.has("rocpd_string") else {}
    shapes: dict[int, tuple[int, int]] = {}
    if base.has("rocpd_api", "id", "pid", "tid", "start", "end", "apiName_id", "args_id"):
        _calls(base, got, strings)
        progress("reading", 0.4)
        shapes = _shapes(base, strings)
    devices: set[int] = set()
    if base.has("rocpd_op", "id", "gpuId", "queueId", "start", "end", "description_id", "opType_id"):
        devices = _ops(base, got, strings, shapes)
        progress("reading", 0.9)
    if base.has("rocpd_monitor", "deviceType", "deviceId", "monitorType", "start", "value"):
        _clocks(base, got)
    return tuple(Device(number, "") for number in sorted(devices))


def _named(strings: dict[int, str], names: Sequence[str]) -> str:
    """The condition that a call has one of the names."""
    ids = [key for key, name in strings.items() if isinstance(key, int) and name in names]
    return f"A.apiName_id IN ({', '.join(map(str, ids))})"


def _calls(base: Base, got: Gathered, strings: dict[int, str]) -> None:
    """Launches, and the ranges that are calls of a name of its own."""
    marker = _named(strings, _MARKERS)
    columns = "A.start, A.end, A.pid, A.tid"
    for batch in base.batches(f"SELECT {columns}, A.id, A.apiName_id FROM rocpd_api A WHERE NOT {marker}"):
        start, end, pid, tid, key, name = zip(*batch, strict=True)
        times = {"start": ints(start), "end": ints(end, -2), "correlation": ints(key), "thread": got.on(pid, tid)}
        got.add(Launches, times | got.calls([strings.get(it, "") for it in name]))
    texts = "rocpd_ustring" if base.has("rocpd_ustring") else "rocpd_string"
    for batch in base.batches(
        f"SELECT {columns}, B.string FROM rocpd_api A JOIN {texts} B ON B.id = A.args_id WHERE {marker}"
    ):
        start, end, pid, tid, name = zip(*batch, strict=True)
        got.ranges(ints(start), ints(end, -2), got.on(pid, tid), [str(it) for it in name])


def _ops(base: Base, got: Gathered, strings: dict[int, str], shapes: dict[int, tuple[int, int]]) -> set[int]:
    """Kernels and copies; the devices they ran on."""
    sizes = base.pairs("SELECT api_ptr_id, size FROM rocpd_copyapi") if base.has("rocpd_copyapi", "size") else {}
    launched = base.pairs("SELECT op_id, api_id FROM rocpd_api_ops") if base.has("rocpd_api_ops") else {}
    devices: set[int] = set()
    for batch in base.batches("SELECT opType_id, start, end, id, gpuId, queueId, description_id FROM rocpd_op"):
        ops = [(strings.get(kind, ""), *rest) for kind, *rest in batch]
        copies = [op for op in ops if op[0].startswith(_COPIES)]
        kernels = [op for op in ops if not op[0].startswith((*_COPIES, *_NO_WORK))]
        if copies:
            kind, *rest = zip(*copies, strict=True)
            call, columns = _op(launched, *rest[:5])
            columns["kind"] = np.array([copy_kind(it) for it in kind], np.int64)
            got.add(Copies, columns | {"bytes": ints([sizes.get(it, 0) for it in call], 0)})
            devices.update(columns["device"].tolist())
        if kernels:
            kind, *rest = zip(*kernels, strict=True)
            call, columns = _op(launched, *rest[:5])
            # A kernel without a name has that of its kind.
            names = [strings.get(text) or other for text, other in zip(rest[5], kind, strict=True)]
            shape = [shapes.get(it, (0, 0)) for it in call]
            columns |= {"blocks": ints([many for many, _ in shape], 0), "threads": ints([each for _, each in shape], 0)}
            got.add(Kernels, columns | {"name": got.named(names)})
            devices.update(columns["device"].tolist())
    return devices


def _op(
    launched: dict[int, int], start: Any, end: Any, key: Any, gpu: Any, queue: Any
) -> tuple[list[int], dict[str, Any]]:
    """The call that started each operation, and the columns that kernels and copies share."""
    call = [launched.get(it, NOT_SAID) for it in key]
    return call, {
        "start": ints(start),
        "end": ints(end, -2),
        "device": ints(gpu),
        "stream": ints(queue),
        "correlation": ints(call),
    }


_COPIES = ("Copy", "FillBuffer", "Mem")
_NO_WORK = ("Barrier", "Marker")


def _shapes(base: Base, strings: dict[int, str]) -> dict[int, tuple[int, int]]:
    """Blocks and threads by launch call."""
    axes = [f"{of}{axis}" for of in ("grid", "workgroup") for axis in "XYZ"]
    if not base.has("rocpd_kernelapi", "api_ptr_id", *axes):
        return {}
    of_items = base.pairs(f"SELECT A.id, 1 FROM rocpd_api A WHERE {_named(strings, _OF_ITEMS)}")
    shapes: dict[int, tuple[int, int]] = {}
    for batch in base.batches(f"SELECT api_ptr_id, {', '.join(axes)} FROM rocpd_kernelapi"):
        for call, *axis in zip(*(ints(column, 0).tolist() for column in zip(*batch, strict=True)), strict=True):
            grid, group = tuple(axis[:3]), tuple(axis[3:])
            items = grid if call in of_items else tuple(many * each for many, each in zip(grid, group, strict=True))
            shapes[call] = blocks(items, group)
    return shapes


def _clocks(base: Base, got: Gathered) -> None:
    for batch in base.batches(
        "SELECT start, deviceId, CAST(value AS REAL) FROM rocpd_monitor"
        " WHERE deviceType = 'gpu' AND monitorType = 'sclk'"
    ):
        start, device, value = zip(*batch, strict=True)
        name = np.full(len(batch), got.names("sclk [MHz]"), np.int32)
        got.add(Counters, {"time": ints(start), "device": ints(device), "value": np.array(value, float), "name": name})
