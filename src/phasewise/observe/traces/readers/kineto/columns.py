"""The columns that the events of a Kineto trace are put into, a chunk of events at a time."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from phasewise.observe.traces.events import (
    NOT_SAID,
    Bands,
    CopyKind,
    Copies,
    Ints,
    Kernels,
    LaunchKind,
    Launches,
    Ops,
    Small,
    Thread,
    Trace,
)
from phasewise.observe.traces.readers.kineto.calls import call_kind
from phasewise.observe.traces.readers.kineto.event import BAD, Event, nanoseconds
from phasewise.observe.traces.tables import Names, empty, joined, rows, table

_CATEGORIES = {
    "kernel": Kernels,
    "gpu_memcpy": Copies,
    "gpu_memset": Copies,
    "cuda_runtime": Launches,
    "cuda_driver": Launches,
    "user_annotation": Bands,
    "cpu_op": Ops,
    # As PyTorch before 1.12 wrote them.
    "Kernel": Kernels,
    "Memcpy": Copies,
    "Memset": Copies,
    "Runtime": Launches,
    "Operator": Ops,
}

_COPY = {
    "HtoD": CopyKind.HOST_TO_DEVICE,
    "DtoH": CopyKind.DEVICE_TO_HOST,
    "DtoD": CopyKind.DEVICE_TO_DEVICE,
    "PtoP": CopyKind.PEER,
}

_TELLING = re.compile(r"mm|matmul|linear|conv|att(entio)?n|moe|expert|einsum|embedding|norm|^(?!aten|c10d|prim)\w+::")
"""Operators whose shapes tell tokens, widths or contexts; those of all others would only take memory."""


class Columns:
    """Collects events; `trace` hands them on."""

    def __init__(self) -> None:
        self.names = Names()
        self.shapes = Names()
        self.threads: dict[tuple[int | str, int | str], int] = {}
        self.parts: dict[type, list[Any]] = {kind: [] for kind in (Kernels, Copies, Launches, Bands, Ops)}
        self.misdated = 0
        self.events = 0
        self._kinds: dict[str, LaunchKind] = {}
        self._telling: dict[str, bool] = {}
        self._open: dict[tuple[int | str, int | str], list[Event]] = {}

    def add(self, events: Sequence[Event]) -> None:
        """Put the events that the model has a place for into their tables."""
        self.events += len(events)
        sorted_: dict[type, list[Event]] = {kind: [] for kind in self.parts}
        for event in events:
            kind = _CATEGORIES.get(event.cat)
            if kind is not None:
                if event.ph == "X":
                    sorted_[kind].append(event)
                elif kind is Bands and event.ph in ("B", "E"):
                    self._halves(event, sorted_[Bands])
        makers: tuple[tuple[type, Callable[[list[Event]], dict[str, Any]]], ...] = (
            (Kernels, self._kernels),
            (Copies, self._copies),
            (Launches, self._launches),
            (Bands, self._bands),
            (Ops, self._ops),
        )
        for kind, make in makers:
            if some := sorted_[kind]:
                self._put(kind, some, make(some))

    def _halves(self, event: Event, bands: list[Event]) -> None:
        stack = self._open.setdefault((event.pid, event.tid), [])
        if event.ph == "B":
            stack.append(event)
        elif stack:
            begun = stack.pop()
            begun.dur = event.ts - begun.ts  # type: ignore[operator]
            bands.append(begun)

    def _put(self, kind: Any, events: list[Event], columns: dict[str, Any]) -> None:
        start = nanoseconds([event.ts for event in events])
        length = nanoseconds([event.dur for event in events])
        good = (start >= 0) & (length >= 0)
        made = table(kind, {"start": start, "end": start + length, **columns, "rank": np.zeros(len(events))})
        if not good.all():
            self.misdated += int((~good).sum())
            made = rows(made, good)
        self.parts[kind].append(made)

    def _kernels(self, events: list[Event]) -> dict[str, Any]:
        args = [event.args for event in events]
        return {
            "name": self._name(events),
            "device": small([one.device for one in args]),
            "stream": ints([one.stream for one in args]),
            "correlation": ints([one.correlation for one in args]),
            "external": ints([one.external for one in args]),
            "graph": ints([one.graph for one in args]),
            "node": ints([one.node for one in args]),
            "blocks": ints([_volume(one.grid) for one in args]),
            "threads": small([_volume(one.block) for one in args]),
        }

    def _copies(self, events: list[Event]) -> dict[str, Any]:
        args = [event.args for event in events]
        return {
            "device": small([one.device for one in args]),
            "stream": ints([one.stream for one in args]),
            "correlation": ints([one.correlation for one in args]),
            "kind": small([_copy_kind(event) for event in events]),
            "bytes": ints([one.bytes for one in args]),
        }

    def _launches(self, events: list[Event]) -> dict[str, Any]:
        args = [event.args for event in events]
        kinds = self._kinds
        for event in events:
            if event.name not in kinds:
                kinds[event.name] = call_kind(event.name)
        return {
            "name": self._name(events),
            "thread": self._thread(events),
            "correlation": ints([one.correlation for one in args]),
            "external": ints([one.external for one in args]),
            "kind": small([kinds[event.name] for event in events]),
            "kernel": small([self.names(one.kernel) if one.kernel else NOT_SAID for one in args]),
        }

    def _bands(self, events: list[Event]) -> dict[str, Any]:
        thread = self._thread(events)
        return {"name": self._name(events), "thread": thread, "end_thread": thread}

    def _ops(self, events: list[Event]) -> dict[str, Any]:
        return {
            "name": self._name(events),
            "thread": self._thread(events),
            "external": ints([event.args.external for event in events]),
            "shape": small([self._shape(event) for event in events]),
        }

    def _shape(self, event: Event) -> int:
        telling = self._telling.get(event.name)
        if telling is None:
            telling = self._telling[event.name] = bool(_TELLING.search(event.name))
        if not telling:
            return NOT_SAID
        text = bytes(event.args.dims).decode("ascii", "replace")
        return self.shapes("".join(text.split())) if text else NOT_SAID

    def _name(self, events: list[Event]) -> Small:
        names = self.names
        return np.array([names(event.name) for event in events], dtype=np.int32)

    def _thread(self, events: list[Event]) -> Small:
        threads = self.threads
        found = [threads.setdefault((event.pid, event.tid), len(threads)) for event in events]
        return np.array(found, dtype=np.int32)

    def trace(self, base: int) -> Trace:
        """Everything so far, in ns from the earliest event; ``base`` is the Unix time that the file counts from."""
        tables: dict[type, Any] = {kind: joined(kind, parts) for kind, parts in self.parts.items()}
        earliest = min((int(one.start.min()) for one in tables.values() if len(one.start)), default=0)
        for kind, one in tables.items():
            tables[kind] = one._replace(start=one.start - earliest, end=one.end - earliest)
        return empty()._replace(
            names=self.names.all,
            threads=tuple(Thread(0, str(pid), str(tid)) for pid, tid in self.threads),
            shapes=self.shapes.all,
            origin_ns=base + earliest,
            kernels=tables[Kernels],
            copies=tables[Copies],
            launches=tables[Launches],
            bands=tables[Bands],
            ops=tables[Ops],
        )


def _volume(sides: list[int]) -> int:
    return sides[0] * sides[1] * sides[2] if len(sides) == 3 else 0


def _copy_kind(event: Event) -> CopyKind:
    if event.cat in ("gpu_memset", "Memset"):
        return CopyKind.SET
    return next((kind for mark, kind in _COPY.items() if mark in event.name), CopyKind.OTHER)


def ints(values: list[int]) -> Ints:
    """An int64 column; ids that do not fit are not said."""
    try:
        return np.array(values, dtype=np.int64)
    except OverflowError:
        return np.array([value if abs(value) < 1 << 63 else NOT_SAID for value in values], dtype=np.int64)


def small(values: list[int]) -> Small:
    """An int32 column; ids that do not fit are not said."""
    wide = ints(values)
    return np.where(np.abs(wide) < 1 << 31, wide, NOT_SAID).astype(np.int32)
