"""A trace and its steps as Chrome trace events, the JSON that Perfetto, chrome://tracing and phasewise itself read.

Times are written digit by digit from integer ns, so that none is rounded: a float of some 1e15 µs keeps a quarter µs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import Any

from phasewise.observe.traces import tables
from phasewise.observe.traces.bands import Stretch, stretches, tracks
from phasewise.observe.traces.busy import device_name
from phasewise.observe.traces.events import NOT_SAID, CopyKind, Ints, Kernels, Small, Trace
from phasewise.observe.traces.split import Split, Step
from phasewise.observe.traces.tables import Table

_HOST, _DEVICE, _PHASES = 1_000_000_000, 1_500_000_000, 2_000_000_000
"""Process ids of ours, above any that an operating system gives."""

_PER_RANK, _PER_LANE = 10_000, 1_000
"""Process ids of one rank's devices, and tracks of one device's steps where they overlap."""

_ROWS = 1 << 14
"""Events that are made at a time."""

_COPIES = {
    CopyKind.HOST_TO_DEVICE: '"Memcpy HtoD"',
    CopyKind.DEVICE_TO_HOST: '"Memcpy DtoH"',
    CopyKind.DEVICE_TO_DEVICE: '"Memcpy DtoD"',
    CopyKind.PEER: '"Memcpy PtoP"',
    CopyKind.SET: '"Memset"',
    CopyKind.OTHER: '"Memcpy"',
}


Said = dict[str, Ints | Small]
"""Columns by the name that they have as arguments of an event."""


def phase_events(trace: Trace, split: Split, shift: int = 0) -> Iterator[str]:
    """The steps as bands of a process of their own for each rank: one track of all, then one per device.

    ``shift`` ns is added to every time.
    """
    lanes: dict[tuple[int, int], list[Stretch]] = {}
    for one in stretches(trace, split):
        lanes.setdefault((split.steps[one.step].rank, NOT_SAID if one.device is None else one.device), []).append(one)
    for rank, device in sorted(lanes):
        pid, lane = _PHASES + rank, (device + 1) * _PER_LANE
        if device == NOT_SAID:
            yield _meta("process_name", pid, 0, {"name": f"phasewise phases{_of_rank(trace, rank)}"})
            yield _meta("process_sort_index", pid, 0, {"sort_index": -1})
        tracked = [(lane + track, one) for track, one in tracks(lanes[rank, device])]
        for tid in sorted({tid for tid, _ in tracked}):
            name = "steps" if device == NOT_SAID else f"device {device}"
            yield _meta("thread_name", pid, tid, {"name": name if tid == lane else f"{name} ({tid - lane + 1})"})
            yield _meta("thread_sort_index", pid, tid, {"sort_index": tid})
        for tid, one in tracked:
            step = split.steps[one.step]
            yield (
                f'{{"ph":"X","cat":"phasewise","name":"{step.phase}","pid":{pid},"tid":{tid},'
                f'"ts":{_us(one.start + shift)},"dur":{_us(one.end - one.start)},"args":{_text(_said(one, step))}}}'
            )


def _said(one: Stretch, step: Step) -> dict[str, Any]:
    said: dict[str, Any] = {
        "step": one.step,
        "kernels": one.kernels,
        "confidence": round(step.confidence, 3),
        "evidence": "; ".join(step.evidence),
        "label": step.label,
        "speculative": step.speculative or None,
    }
    for name, half in (("prefill", step.prefill), ("decode", step.decode)):
        if half is not None:
            said |= {f"{name} requests": half.requests, f"{name} tokens": half.tokens}
    return {name: value for name, value in said.items() if value not in (None, "")}


def trace_events(trace: Trace) -> Iterator[str]:
    """Everything of the tables that lies on the clock; operators that stand for kernels are written as operators."""
    names = [_text(name) for name in trace.names]
    yield from _processes(trace)
    for k in _slices(tables.table(Kernels) if trace.on_cpu else trace.kernels):
        graph: Said = {
            "correlation": k.correlation,
            "External id": k.external,
            "graph id": k.graph,
            "graph node id": k.node,
        }
        yield from _events(k.start, k.end, repeat("kernel"), _at(names, k.name), _device(k), _where(k) | graph)
    for c in _slices(trace.copies):
        cats = ("gpu_memset" if kind == CopyKind.SET else "gpu_memcpy" for kind in c.kind.tolist())
        said = _where(c) | {"correlation": c.correlation, "bytes": c.bytes}
        yield from _events(
            c.start, c.end, cats, (_COPIES[CopyKind(kind)] for kind in c.kind.tolist()), _device(c), said
        )
    for r in _slices(trace.replays):
        said = _where(r) | {"correlation": r.correlation, "graph id": r.graph}
        yield from _events(r.start, r.end, repeat("gpu_graph"), repeat('"graph replay"'), _device(r), said)
    for call in _slices(trace.launches):
        said = {"correlation": call.correlation, "External id": call.external}
        place = _thread(trace, call.thread)
        yield from _events(call.start, call.end, repeat("cuda_runtime"), _at(names, call.name), place, said)
    for op in _slices(trace.ops):
        place = _thread(trace, op.thread)
        yield from _events(op.start, op.end, repeat("cpu_op"), _at(names, op.name), place, {"External id": op.external})
    for b in _slices(trace.bands):
        place = _thread(trace, b.thread)
        yield from _events(b.start, b.end, repeat("user_annotation"), _at(names, b.name), place, {})
    yield from _counters(trace, names)


def _events(
    start: Ints,
    end: Ints,
    cats: Iterable[str],
    names: Iterable[str],
    places: Iterable[str],
    said: Said,
) -> Iterator[str]:
    """One event for each row; what an argument's column does not say is left out."""
    keys = [f'"{key}":' for key in said]
    values = zip(*(column.tolist() for column in said.values()), strict=True) if said else repeat(())
    rows = zip(start.tolist(), (end - start).tolist(), cats, names, places, values, strict=False)
    for begin, length, cat, name, place, row in rows:
        body = ",".join([f"{key}{value}" for key, value in zip(keys, row, strict=True) if value != NOT_SAID])
        yield (
            f'{{"ph":"X","cat":"{cat}","name":{name},{place},"ts":{_us(begin)},"dur":{_us(length)},"args":{{{body}}}}}'
        )


def _counters(trace: Trace, names: list[str]) -> Iterator[str]:
    for c in _slices(trace.counters):
        columns = (c.time.tolist(), c.name.tolist(), c.rank.tolist(), c.device.tolist(), c.value.tolist())
        for time, name, rank, device, value in zip(*columns, strict=True):
            if value == value:
                pid = _DEVICE + rank * _PER_RANK + device
                yield f'{{"ph":"C","name":{names[name]},"pid":{pid},"ts":{_us(time)},"args":{{"value":{value}}}}}'


def _processes(trace: Trace) -> Iterator[str]:
    """Names of the devices, processes and threads."""
    devices = {
        place
        for table in (trace.kernels, trace.copies, trace.replays, trace.counters)
        for place in zip(table.rank.tolist(), table.device.tolist(), strict=True)
    }
    for rank, device in sorted(devices):
        said = f"device {device}{_of_rank(trace, rank)} {device_name(trace, rank, device)}".strip()
        yield _meta("process_name", _DEVICE + rank * _PER_RANK + device, 0, {"name": said})
    pids = _pids(trace)
    for (rank, pid), number in pids.items():
        yield _meta("process_name", number, 0, {"name": f"host{_of_rank(trace, rank)} (process {pid})"})
    for at, thread in enumerate(trace.threads):
        yield _meta("thread_name", pids[thread.rank, thread.pid], at, {"name": f"thread {thread.tid}"})


def _pids(trace: Trace) -> dict[tuple[int, str], int]:
    keys = dict.fromkeys((thread.rank, thread.pid) for thread in trace.threads)
    return {key: _HOST + at for at, key in enumerate(keys)}


def _of_rank(trace: Trace, rank: int) -> str:
    return f" (rank {rank})" if len(trace.sources) > 1 else ""


def _slices(table: Table) -> Iterator[Table]:
    for at in range(0, len(table[0]), _ROWS):
        columns: Any = (column[at : at + _ROWS] for column in table)
        yield type(table)(*columns)


def _at(names: list[str], column: Small) -> Iterator[str]:
    return (names[at] if at >= 0 else '""' for at in column.tolist())


def _where(table: Any) -> Said:
    return {"device": table.device, "stream": table.stream}


def _device(table: Any) -> Iterator[str]:
    columns = table.rank.tolist(), table.device.tolist(), table.stream.tolist()
    return (
        f'"pid":{_DEVICE + rank * _PER_RANK + device},"tid":{tid}' for rank, device, tid in zip(*columns, strict=True)
    )


def _thread(trace: Trace, column: Small) -> Iterator[str]:
    pids = _pids(trace)
    places = [f'"pid":{pids[one.rank, one.pid]},"tid":{at}' for at, one in enumerate(trace.threads)]
    return (places[at] if at >= 0 else f'"pid":{_HOST - 1},"tid":0' for at in column.tolist())


def _meta(what: str, pid: int, tid: int, said: dict[str, Any]) -> str:
    return f'{{"ph":"M","name":"{what}","pid":{pid},"tid":{tid},"ts":0,"args":{_text(said)}}}'


def _us(time: int) -> str:
    """Integer ns as µs with three decimals."""
    sign = "-" if time < 0 else ""
    whole, rest = divmod(abs(time), 1000)
    return f"{sign}{whole}.{rest:03d}"


def _text(value: Any) -> str:
    """``value`` as JSON, of ASCII characters alone."""
    return json.dumps(value)
