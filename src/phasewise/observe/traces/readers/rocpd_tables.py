"""The tables of rocpd: ROCm/rocm-systems, projects/rocprofiler-sdk/source/share/rocprofiler-sdk-rocpd/.

Three layouts are in the field. 3.x: times, agent and thread are columns of the event. 4.0: they are in
``rocpd_timestamp`` and ``rocpd_track``. 4.1: times are columns again, the rest stays in the track. A file may hold
several processes, each with tables of its own (``rocpd_kernel_dispatch_<id>``).
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import msgspec
import numpy as np

from phasewise.observe.traces.events import NOT_SAID, Copies, Device, Kernels, Launches
from phasewise.observe.traces.readers import Progress
from phasewise.observe.traces.readers.rocm import Gathered, blocks, copy_kind
from phasewise.observe.traces.readers.rocpd_base import Base, ints

FORM = "rocpd SQLite"

_PROCESS = 1 << 44
"""How far apart the correlation ids of two processes of one file are kept."""

_SIZES = tuple(f"{of}_size_{axis}" for of in ("grid", "workgroup") for axis in "xyz")


class _Tables(NamedTuple):
    """The tables of one process, with what its ids mean."""

    base: Base
    got: Gathered
    suffix: str
    offset: int
    strings: dict[int, str]
    devices: dict[int, int]

    def query(self, table: str, wanted: dict[str, str]) -> str | None:
        """SQL for columns of an event table (ours to theirs; absent ones are NULL), with start, end, correlation."""
        name = f"{table}{self.suffix}"
        columns = self.base.tables.get(name, frozenset())
        joins, found = [], dict[str, str]()
        for column in ("start", "end"):
            if column in columns:
                found[column] = f'D."{column}"'
            elif f"{column}_id" in columns and self._has("rocpd_timestamp", "value"):
                joins.append(f'JOIN "rocpd_timestamp{self.suffix}" {column}_at ON {column}_at.id = D.{column}_id')
                found[column] = f"{column}_at.value"
            else:
                return None
        track = self.base.tables.get(f"rocpd_track{self.suffix}", frozenset()) if "track_id" in columns else frozenset()
        if track:
            joins.append(f'LEFT JOIN "rocpd_track{self.suffix}" T ON T.id = D.track_id')
        event = self.base.tables.get(f"rocpd_event{self.suffix}", frozenset()) if "event_id" in columns else frozenset()
        if event:
            joins.append(f'LEFT JOIN "rocpd_event{self.suffix}" E ON E.id = D.event_id')
        found["correlation"] = "E.stack_id" if "stack_id" in event else "NULL"
        for ours, theirs in wanted.items():
            where = next((it for it, of in (("D", columns), ("T", track), ("E", event)) if theirs in of), "")
            found[ours] = f'{where}."{theirs}"' if where else "NULL"
        return f'SELECT {", ".join(found.values())} FROM "{name}" D {" ".join(joins)}'

    def _has(self, table: str, *columns: str) -> bool:
        return self.base.has(f"{table}{self.suffix}", *columns)

    def times(self, start: Any, end: Any, correlation: Any) -> dict[str, Any]:
        """The columns that all events have; without an end they end before they start, and are left out so."""
        ids = ints(correlation)
        return {"start": ints(start), "end": ints(end, -2), "correlation": np.where(ids < 0, ids, ids + self.offset)}


def read(base: Base, got: Gathered, progress: Progress) -> tuple[Device, ...]:
    """Everything, process by process."""
    suffixes = [table.removeprefix("rocpd_string") for table in base.tables if re.match("rocpd_string(_|$)", table)]
    found: dict[int, Device] = {}
    for number, suffix in enumerate(suffixes):
        strings = base.pairs(f'SELECT id, string FROM "rocpd_string{suffix}"')
        devices = _agents(base, suffix, found)
        tables = _Tables(base, got, suffix, number * _PROCESS, strings, devices)
        for step, take in enumerate((_dispatches, _copies, _regions)):
            take(tables)
            progress("reading", (number + (step + 1) / 3) / len(suffixes))
    return tuple(found[key] for key in sorted(found))


def _agents(base: Base, suffix: str, found: dict[int, Device]) -> dict[int, int]:
    """The number of each GPU by its agent; the GPUs go into ``found``."""
    table = f"rocpd_info_agent{suffix}"
    if not base.has(table, "id", "type"):
        return {}
    number = next((it for it in ("type_index", "logical_index", "absolute_index") if base.has(table, it)), "id")
    names = [it for it in ("product_name", "model_name", "name") if base.has(table, it)]
    title = f"coalesce({', '.join(f'nullif({it}, {chr(39) * 2})' for it in names)}, '')" if names else "''"
    devices: dict[int, int] = {}
    for batch in base.batches(f"""SELECT id, {number}, {title} FROM "{table}" WHERE type = 'GPU'"""):
        for agent, index, name in batch:
            devices[agent] = int(ints([index])[0])
            found[devices[agent]] = Device(devices[agent], str(name))
    return devices


def _dispatches(tables: _Tables) -> None:
    base, got = tables.base, tables.got
    symbols = f"rocpd_info_kernel_symbol{tables.suffix}"
    title = next((it for it in ("display_name", "kernel_name") if base.has(symbols, it)), None)
    names = base.pairs(f'SELECT id, {title} FROM "{symbols}"') if title else {}
    wanted = ("kernel_id", "agent_id", "stream_id", "queue_id", "graph_exec_id", "graph_node_id", *_SIZES)
    sql = tables.query("rocpd_kernel_dispatch", {name: name for name in wanted})
    for batch in base.batches(sql) if sql else ():
        start, end, correlation, kernel, agent, stream, queue, graph, node, *sizes = zip(*batch, strict=True)
        axes = zip(*(ints(column, 0).tolist() for column in sizes), strict=True)
        shapes = [blocks(row[:3], row[3:]) for row in axes]
        streams, graphs = ints(stream), ints(graph, 0)
        got.add(
            Kernels,
            tables.times(start, end, correlation)
            | {
                "name": got.named([str(names.get(it) or f"kernel {it}") for it in kernel]),
                "device": np.array([tables.devices.get(it, NOT_SAID) for it in agent], np.int64),
                "stream": np.where(streams < 0, ints(queue), streams),
                "graph": np.where(graphs == 0, NOT_SAID, graphs),
                "node": ints(node, 0),
                "blocks": np.array([many for many, _ in shapes], np.int64),
                "threads": np.array([each for _, each in shapes], np.int64),
            },
        )


def _copies(tables: _Tables) -> None:
    devices = tables.devices
    wanted = ("name_id", "dst_agent_id", "src_agent_id", "size", "stream_id")
    sql = tables.query("rocpd_memory_copy", {name: name for name in wanted})
    for batch in tables.base.batches(sql) if sql else ():
        start, end, correlation, name, target, source, size, stream = zip(*batch, strict=True)
        device = [devices.get(to, devices.get(of, NOT_SAID)) for to, of in zip(target, source, strict=True)]
        tables.got.add(
            Copies,
            tables.times(start, end, correlation)
            | {
                "device": np.array(device, np.int64),
                "stream": ints(stream),
                "kind": np.array([copy_kind(tables.strings.get(it, "")) for it in name], np.int64),
                "bytes": ints(size, 0),
            },
        )


def _regions(tables: _Tables) -> None:
    """Calls of HIP and RCCL become launches, roctx and user's ranges bands; other regions are neither."""
    base, got = tables.base, tables.got
    kinds = f"rocpd_info_category{tables.suffix}"
    kind_of = base.pairs(f'SELECT id, name FROM "{kinds}"') if base.has(kinds, "id", "name") else tables.strings
    wanted = {it: it for it in ("name_id", "pid", "tid", "category_id", "extdata")}
    sql = tables.query("rocpd_region", wanted)
    for batch in base.batches(sql) if sql else ():
        kinds_ = [str(kind_of.get(row[6], "")).upper() for row in batch]
        calls = [row for row, kind in zip(batch, kinds_, strict=True) if "HIP" in kind or "RCCL" in kind]
        marks = [row for row, kind in zip(batch, kinds_, strict=True) if "MARKER" in kind or kind == "USER"]
        if calls:
            start, end, correlation, name, pid, tid, *_ = zip(*calls, strict=True)
            columns = tables.times(start, end, correlation) | {"thread": got.on(pid, tid)}
            got.add(Launches, columns | got.calls([tables.strings.get(it, "") for it in name]))
        if marks:
            start, end, _, name, pid, tid, _, extra = zip(*marks, strict=True)
            said = [_message(it) or tables.strings.get(key, "") for it, key in zip(extra, name, strict=True)]
            got.ranges(ints(start), ints(end, -2), got.on(pid, tid), said)


class _Extra(msgspec.Struct):
    message: str = ""


_EXTRA = msgspec.json.Decoder(_Extra)


def _message(extra: object) -> str:
    try:
        return _EXTRA.decode(str(extra)).message
    except msgspec.MsgspecError:
        return ""
