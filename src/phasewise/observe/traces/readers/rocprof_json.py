"""rocprofv3's JSON (`rocprofv3 --output-format json`): one object per process under ``rocprofiler-sdk-tool``.

Schema: ROCm/rocprofiler-sdk, source/lib/output/generateJSON.cpp. Only the outline is decoded at once; the arrays of
records, which are nearly all of the file, are decoded piece by piece.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from typing import Any

import msgspec

from phasewise.errors import InputError
from phasewise.observe.traces.events import NOT_SAID, Device, Fault, Source, Trace
from phasewise.observe.traces.opened import Opened
from phasewise.observe.traces.readers import Progress
from phasewise.observe.traces.readers.rocm import Gathered
from phasewise.observe.traces.readers.rocprof_records import DOMAINS, Domain, Handle, Process

FORM = "rocprofv3 JSON"

_PIECE = 8 << 20
"""Bytes of records that are decoded at a time."""

_BOUNDARY = re.compile(rb"\}\s*,\s*\{")
"""Between two records: the objects inside a record are values of keys, never elements of an array."""

_PROCESS = 1 << 44
"""How far apart the correlation ids of two processes of one file are kept."""

_GPU = 2
"""ROCPROFILER_AGENT_TYPE_GPU."""


class _Symbol(msgspec.Struct, gc=False):
    kernel_id: int
    kernel_name: str = ""
    formatted_kernel_name: str | int = ""


class _Agent(msgspec.Struct):
    id: Handle
    type: int = 0
    logical_node_type_id: int = NOT_SAID
    name: str = ""
    product_name: str = ""
    cu_count: int = 0


class _Message(msgspec.Struct):
    key: int
    value: str


class _Kind(msgspec.Struct):
    operations: list[str] = []


class _Strings(msgspec.Struct):
    buffer_records: list[_Kind] = []
    marker_api: list[_Message] = []


class _Metadata(msgspec.Struct, frozen=True):
    pid: int = NOT_SAID


class _Process(msgspec.Struct):
    """One process; its records stay undecoded."""

    metadata: _Metadata = _Metadata()
    agents: list[_Agent] = []
    strings: _Strings = msgspec.field(default_factory=_Strings)
    kernel_symbols: list[_Symbol] = []
    buffer_records: dict[str, msgspec.Raw] = {}


class _File(msgspec.Struct):
    processes: list[_Process] = msgspec.field(name="rocprofiler-sdk-tool")


def sniff(opened: Opened) -> bool:
    """The tool's name is the first key."""
    return re.match(rb'(?:\xef\xbb\xbf)?\s*\{\s*"rocprofiler-sdk-tool"\s*:', opened.head) is not None


def read(opened: Opened, progress: Progress) -> Trace:
    """Dispatches, copies, HIP and RCCL calls, and roctx ranges.

    Raises:
        InputError: no valid JSON, or it breaks off before the records.
    """
    text = bytearray()
    for block in opened.blocks():
        text += block
        progress("reading", 0.5 * opened.done / opened.size)
    file, faults = _outline(opened, text)
    got = Gathered()
    devices: dict[int, Device] = {}
    total = sum(len(memoryview(raw)) for process in file.processes for raw in process.buffer_records.values())
    done = 0
    for number, process in enumerate(file.processes):
        gpus = {it.id.handle: it for it in process.agents if it.type == _GPU}
        for it in gpus.values():
            devices[it.logical_node_type_id] = Device(it.logical_node_type_id, it.product_name or it.name, it.cu_count)
        known = Process(
            got=got,
            pid=process.metadata.pid,
            offset=number * _PROCESS,
            devices={handle: it.logical_node_type_id for handle, it in gpus.items()},
            kernels={it.kernel_id: str(it.formatted_kernel_name or it.kernel_name) for it in process.kernel_symbols},
            operations=[kind.operations for kind in process.strings.buffer_records],
            messages={message.key: message.value for message in process.strings.marker_api},
        )
        for name, raw in process.buffer_records.items():
            if name in DOMAINS:
                for piece in _pieces(memoryview(raw)):
                    DOMAINS[name].take(known, _decoded(piece, DOMAINS[name], got))
                    progress("reading", 0.5 + 0.5 * (done + len(piece)) / total)
            done += len(memoryview(raw))
    source = Source(opened.name, FORM, devices=tuple(devices.values()), faults=tuple(faults))
    return got.trace(source, "record it again with rocprofv3 --kernel-trace")


def _outline(opened: Opened, text: bytearray) -> tuple[_File, list[Fault]]:
    """The file without its records; one that breaks off among them is closed after its last whole record."""
    try:
        return msgspec.json.decode(text, type=_File), []
    except msgspec.MsgspecError as error:
        why = str(error)
    # Counters may be NaN, which JSON does not know; marker messages may hold any bytes.
    clean = re.sub(rb"([:\[,]\s*)-?(?:[nN]a[nN]|[iI]nf(?:inity)?)\b", rb"\1null", text)
    clean = clean.decode("utf-8", "replace").encode()
    records = max(clean.rfind(b'"buffer_records"'), 0)
    ends = deque((found.start() + 1 for found in _BOUNDARY.finditer(clean, records)), maxlen=1)
    closed = clean[: ends[0]] + b"]}}]}" if ends else b""
    broken = f"{opened.truncated or 'The file breaks off or is damaged'} ({why}); the records before that are used."
    for whole, fault in (
        (clean, Fault("damaged", f"The file is no valid JSON ({why}); that part is left out.")),
        (closed, Fault("truncated", broken)),
    ):
        try:
            return msgspec.json.decode(whole, type=_File), [fault]
        except msgspec.MsgspecError:
            continue
    raise InputError(f"{opened.name} breaks off or is damaged before its first record ({why}): record it again.")


def _pieces(raw: memoryview) -> Iterator[bytes]:
    """A JSON array of records as several arrays."""
    start, end = 1, len(raw) - 1
    while start < end:
        found = _BOUNDARY.search(raw, start + _PIECE) if end - start > _PIECE else None
        stop = found.start() + 1 if found else end
        yield b"[" + raw[start:stop] + b"]"
        start = found.end() - 1 if found else end


def _decoded(piece: bytes, domain: Domain, got: Gathered) -> list[Any]:
    """The records of one piece, without those that are not as they should be."""
    try:
        records: list[Any] = domain.decoder.decode(piece)
        return records
    except msgspec.MsgspecError:
        pass
    records = []
    for raw in msgspec.json.decode(piece, type=list[msgspec.Raw]):
        try:
            records += domain.decoder.decode(b"[" + bytes(raw) + b"]")
        except msgspec.MsgspecError:
            got.damaged += 1
    return records
