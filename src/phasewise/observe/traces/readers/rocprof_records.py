"""The records of rocprofv3's JSON, and how each kind of them becomes rows of the event model.

Field names: ROCm/rocprofiler-sdk, source/include/rocprofiler-sdk/cxx/serialization.hpp. Versions add fields and leave
some out; what is not needed here is skipped by the decoder.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from phasewise.observe.traces.events import NOT_SAID, Copies, Kernels, Launches
from phasewise.observe.traces.readers.calls import copy_kind
from phasewise.observe.traces.readers.rocm import Gathered, blocks


class Handle(msgspec.Struct, gc=False, frozen=True):
    """How the tool writes an id."""

    handle: int = NOT_SAID


class _Correlation(msgspec.Struct, gc=False, frozen=True):
    internal: int = NOT_SAID


class _Axes(msgspec.Struct, gc=False, frozen=True):
    x: int = 0
    y: int = 0
    z: int = 0


class _Dispatched(msgspec.Struct, gc=False, frozen=True):
    kernel_id: int
    agent_id: Handle = Handle()
    queue_id: Handle = Handle()
    workgroup_size: _Axes = _Axes()
    grid_size: _Axes = _Axes()


_Time = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class _Record(msgspec.Struct, gc=False, frozen=True, kw_only=True):
    start_timestamp: _Time
    end_timestamp: _Time
    correlation_id: _Correlation = _Correlation()


class _Dispatch(_Record, gc=False, frozen=True, kw_only=True):
    dispatch_info: _Dispatched
    stream_id: Handle | None = None
    graph_exec_id: int = 0
    graph_node_id: int = 0


class _Copy(_Record, gc=False, frozen=True, kw_only=True):
    kind: int
    operation: int
    dst_agent_id: Handle = Handle()
    src_agent_id: Handle = Handle()
    stream_id: Handle = Handle()
    bytes: int = 0


class _Call(_Record, gc=False, frozen=True, kw_only=True):
    kind: int
    operation: int
    thread_id: int = NOT_SAID


class Process(NamedTuple):
    """What the records of one process refer to.

    ``offset`` is added to its correlation ids, which count from 1 in every process of a file; ``devices`` gives the
    number of a GPU by its agent's handle; ``operations`` the names of the functions of each kind of record.
    """

    got: Gathered
    pid: int
    offset: int
    devices: dict[int, int]
    kernels: dict[int, str]
    operations: list[list[str]]
    messages: dict[int, str]

    def operation(self, record: _Copy | _Call) -> str:
        """Name of what a record did."""
        names = self.operations[record.kind] if 0 <= record.kind < len(self.operations) else []
        known = 0 <= record.operation < len(names)
        return names[record.operation] if known else f"operation {record.kind}.{record.operation}"


def _ints(values: list[int]) -> NDArray[np.int64]:
    """As an array; what does not fit (2**64 - 1 stands for "none") is not said."""
    try:
        return np.array(values, np.int64)
    except OverflowError:
        return np.array([value if -(2**63) <= value < 2**63 else NOT_SAID for value in values], np.int64)


def _common(process: Process, records: list[Any]) -> dict[str, Any]:
    return {
        "start": _ints([record.start_timestamp for record in records]),
        "end": _ints([record.end_timestamp for record in records]),
        "correlation": _ints([record.correlation_id.internal for record in records]) + process.offset,
    }


def _axes(size: _Axes) -> tuple[int, int, int]:
    return size.x, size.y, size.z


def _dispatches(process: Process, records: list[_Dispatch]) -> None:
    infos = [record.dispatch_info for record in records]
    sizes = [blocks(_axes(info.grid_size), _axes(info.workgroup_size)) for info in infos]
    names = process.kernels
    process.got.add(
        Kernels,
        _common(process, records)
        | {
            "name": process.got.named([names.get(info.kernel_id, f"kernel {info.kernel_id}") for info in infos]),
            "device": _ints([process.devices.get(info.agent_id.handle, NOT_SAID) for info in infos]),
            "stream": _ints([(record.stream_id or record.dispatch_info.queue_id).handle for record in records]),
            "graph": _ints([record.graph_exec_id or NOT_SAID for record in records]),
            "node": _ints([record.graph_node_id for record in records]),
            "blocks": _ints([many for many, _ in sizes]),
            "threads": _ints([each for _, each in sizes]),
        },
    )


def _copies(process: Process, records: list[_Copy]) -> None:
    devices = process.devices
    process.got.add(
        Copies,
        _common(process, records)
        | {
            "device": _ints(
                [devices.get(it.dst_agent_id.handle, devices.get(it.src_agent_id.handle, NOT_SAID)) for it in records]
            ),
            "stream": _ints([record.stream_id.handle for record in records]),
            "kind": _ints([copy_kind(process.operation(record)) for record in records]),
            "bytes": _ints([record.bytes for record in records]),
        },
    )


def _calls(process: Process, records: list[_Call]) -> None:
    thread = [process.got.thread(process.pid, record.thread_id) for record in records]
    calls = process.got.calls([process.operation(record) for record in records])
    process.got.add(Launches, _common(process, records) | calls | {"thread": _ints(thread)})


def _ranges(process: Process, records: list[_Call]) -> None:
    thread = _ints([process.got.thread(process.pid, record.thread_id) for record in records])
    names = [process.messages.get(it.correlation_id.internal) or process.operation(it) for it in records]
    columns = _common(process, records)
    process.got.ranges(columns["start"], columns["end"], thread, names)


class Domain(NamedTuple):
    """How the records of one domain are decoded and taken."""

    decoder: msgspec.json.Decoder[Any]
    take: Callable[[Process, list[Any]], None]


DOMAINS: dict[str, Domain] = {
    "kernel_dispatch": Domain(msgspec.json.Decoder(list[_Dispatch]), _dispatches),
    "memory_copy": Domain(msgspec.json.Decoder(list[_Copy]), _copies),
    "hip_api": Domain(msgspec.json.Decoder(list[_Call]), _calls),
    "rccl_api": Domain(msgspec.json.Decoder(list[_Call]), _calls),
    "marker_api": Domain(msgspec.json.Decoder(list[_Call]), _ranges),
}
"""The domains that the event model holds; HSA calls repeat the HIP calls above them one level down."""
