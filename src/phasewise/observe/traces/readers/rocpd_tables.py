"""The tables of rocpd: ROCm/rocm-systems, projects/rocprofiler-sdk/source/share/rocprofiler-sdk-rocpd/.

Three layouts are in the field. 3.x: times, agent and thread are columns of the event. 4.0: they are in
``rocpd_timestamp`` and ``rocpd_track``. 4.1: times are columns again, the rest stays in the track. A file may hold
several processes, each with tables of its own (``rocpd_kernel_dispatch_<id>``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from phasewise.observe.traces.events import NOT_SAID, Copies, Device, Kernels, Launches
from phasewise.observe.traces.readers import Progress
from phasewise.observe.traces.readers.calls import copy_kind
from phasewise.observe.traces.readers.rocm import Gathered, blocks
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
    strings: dict[Any, Any]
    devices: dict[int, int]

    def rows(self, table: str, wanted: Sequence[str], where: str = "") -> Iterator[list[tuple[Any, ...]]]:
        """Start, end, correlation and the ``wanted`` columns of an event table, -1 for one that is nowhere."""
        name = f"{table}{self.suffix}"
        columns = self.base.tables.get(name, frozenset())
        joins, found = [], []
        for column in ("start", "end"):
            if column in columns:
                found.append(f'D."{column}"')
            elif f"{column}_id" in columns and self.base.has(f"rocpd_timestamp{self.suffix}", "value"):
                joins.append(f'JOIN "rocpd_timestamp{self.suffix}" {column}_at ON {column}_at.id = D.{column}_id')
                found.append(f"{column}_at.value")
            else:
                return iter(())
        places = {"D": columns}
        for alias, other, key in (("T", "rocpd_track", "track_id"), ("E", "rocpd_event", "event_id")):
            if key in columns and self.base.has(f"{other}{self.suffix}"):
                joins.append(f'LEFT JOIN "{other}{self.suffix}" {alias} ON {alias}.id = D.{key}')
                places[alias] = self.base.tables[f"{other}{self.suffix}"]
        for column in ("stack_id", *wanted):
            alias = next((alias for alias, of in places.items() if column in of), "")
            found.append(f'{alias}."{column}"' if alias else "-1")
        if where and "E" not in places:
            return iter(())
        return self.base.batches(f'SELECT {", ".join(found)} FROM "{name}" D {" ".join(joins)} {where}')

    def string(self, key: object) -> str:
        """A text by its id."""
        return str(self.strings.get(key, ""))

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
    for batch in tables.rows("rocpd_kernel_dispatch", wanted):
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
                "node": np.maximum(ints(node, 0), 0),
                "blocks": np.array([many for many, _ in shapes], np.int64),
                "threads": np.array([each for _, each in shapes], np.int64),
            },
        )


def _copies(tables: _Tables) -> None:
    devices = tables.devices
    wanted = ("name_id", "dst_agent_id", "src_agent_id", "size", "stream_id")
    for batch in tables.rows("rocpd_memory_copy", wanted):
        start, end, correlation, name, target, source, size, stream = zip(*batch, strict=True)
        device = [devices.get(to, devices.get(of, NOT_SAID)) for to, of in zip(target, source, strict=True)]
        tables.got.add(
            Copies,
            tables.times(start, end, correlation)
            | {
                "device": np.array(device, np.int64),
                "stream": ints(stream),
                "kind": np.array([copy_kind(tables.string(it)) for it in name], np.int64),
                "bytes": ints(size, 0),
            },
        )


def _regions(tables: _Tables) -> None:
    """Calls of HIP and RCCL become launches, roctx and user's ranges bands; other regions are neither."""
    base, got = tables.base, tables.got
    kinds = f"rocpd_info_category{tables.suffix}"
    kind_of = base.pairs(f'SELECT id, name FROM "{kinds}"') if base.has(kinds, "id", "name") else tables.strings
    if not base.has(f"rocpd_event{tables.suffix}", "category_id", "extdata"):
        return
    columns = ("name_id", "pid", "tid")
    for batch in tables.rows("rocpd_region", columns, _of(kind_of, r"HIP|RCCL")):
        start, end, correlation, name, pid, tid = zip(*batch, strict=True)
        times = tables.times(start, end, correlation)
        got.add(Launches, times | {"thread": got.on(pid, tid)} | got.calls([tables.string(it) for it in name]))
    for batch in tables.rows("rocpd_region", (*columns, "extdata"), _of(kind_of, r"MARKER|^USER$")):
        start, end, _, name, pid, tid, extra = zip(*batch, strict=True)
        names = [_message(it) or tables.string(key) for it, key in zip(extra, name, strict=True)]
        got.ranges(ints(start), ints(end, -2), got.on(pid, tid), names)


def _of(kind_of: dict[Any, Any], pattern: str) -> str:
    """The condition that an event is of a kind; rocprofiler-systems writes the kinds in lower case."""
    ids = [key for key, name in kind_of.items() if isinstance(key, int) and re.search(pattern, str(name).upper())]
    return f"WHERE E.category_id IN ({', '.join(map(str, ids))})"


class _Extra(msgspec.Struct):
    message: str = ""


_EXTRA = msgspec.json.Decoder(_Extra)


def _message(extra: object) -> str:
    try:
        return _EXTRA.decode(str(extra)).message
    except msgspec.MsgspecError:
        return ""
