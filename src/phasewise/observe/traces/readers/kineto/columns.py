"""The columns that the events of a Kineto trace are put into, some thousand events at a time."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from phasewise.observe.traces.events import (
    NOT_SAID,
    Bands,
    Copies,
    Ints,
    Kernels,
    Launches,
    Ops,
    Small,
    Thread,
    Trace,
)
from phasewise.observe.traces.readers.calls import call_kind, copy_kind
from phasewise.observe.traces.readers.kineto.event import CATEGORIES, EXACT_BELOW, Args, Event, nanoseconds
from phasewise.observe.traces.tables import Names, empty, table

_TELLING = re.compile(
    r"mm(?![a-z])|matmul|linear|conv|att(entio)?n|moe|expert|einsum|embedding|norm|^(?!aten|c10d|prim)\w+::"
)
"""Operators whose shapes tell tokens, widths or contexts; those of all others would only take memory."""

_Columns = dict[str, Any]
_Place = tuple[int | str, int | str]


class Columns:
    """Collects events; `trace` hands them on.

    Attributes:
        seen: events in all.
        kept: those that have a place in the event model.
        misdated: those left out because their time is none.
        others: some categories that have no place.
    """

    def __init__(self) -> None:
        self.seen = self.kept = self.misdated = 0
        self.others: set[str] = set()
        self._names: dict[str, int] = {}
        self._shapes = Names()
        self._threads: dict[_Place, int] = {}
        self._calls: dict[str, int] = {}
        self._copied: dict[str, int] = {}
        self._telling: dict[str, bool] = {}
        self._open: dict[_Place, list[Event]] = {}
        self._makers: dict[type, Callable[[list[Event], list[Args]], _Columns]] = {
            Kernels: self._kernels,
            Copies: self._copies,
            Launches: self._launches,
            Bands: self._bands,
            Ops: self._ops,
        }
        self._parts: dict[type, list[_Columns]] = {kind: [] for kind in self._makers}

    def add(self, events: Sequence[Event]) -> bool:
        """Put the events into their tables; False, and nothing is done, when float64 is too coarse for their times."""
        places: dict[type, list[Event]] = {kind: [] for kind in self._makers}
        categories = CATEGORIES
        for event in events:
            kind = categories.get(event.cat)
            if kind is not None:
                places[kind].append(event)
        starts = {kind: [event.ts for event in some] for kind, some in places.items() if some}
        if any(isinstance(start[0], float) and max(start) >= EXACT_BELOW for start in starts.values()):
            return False
        self.seen += len(events)
        for kind, some in places.items():
            spans = [event for event in some if event.ph == "X"]
            if spans:
                self._put(kind, spans)
            if kind is Bands and len(spans) < len(some) and (halves := self._halves(some)):
                self._put(kind, halves)
        if not self.kept and len(self.others) < 8:
            self.others |= {event.cat for event in events[:64]}
        return True

    def _halves(self, events: list[Event]) -> list[Event]:
        """Bands that are written as their begin and their end, one inside the other on each thread."""
        whole = []
        for event in events:
            stack = self._open.setdefault((event.pid, event.tid), [])
            if event.ph == "B":
                stack.append(event)
            elif event.ph == "E" and stack:
                begun = stack.pop()
                begun.ts, begun.dur = _stretch(begun.ts, event.ts)
                whole.append(begun)
        return whole

    def _put(self, kind: type, events: list[Event]) -> None:
        start = nanoseconds([event.ts for event in events])
        length = nanoseconds([event.dur for event in events])
        made = {"start": start, "end": start + length, **self._makers[kind](events, [event.args for event in events])}
        # The end of what is too long wraps round.
        good = (start >= 0) & (length >= 0) & (made["end"] >= start)
        if not good.all():
            made = {name: column[good] for name, column in made.items()}
        self.misdated += len(events) - len(made["start"])
        self.kept += len(made["start"])
        self._parts[kind].append(made)

    def _kernels(self, events: list[Event], args: list[Args]) -> _Columns:
        graph = _ints([one.graph for one in args])
        return {
            "name": self._name(events),
            "device": _small([one.device for one in args]),
            "stream": _ints([one.stream for one in args]),
            "correlation": _ints([one.correlation for one in args]),
            "external": _ints([one.external for one in args]),
            "graph": np.where(graph == 0, NOT_SAID, graph),
            "node": _ints([one.node for one in args], unsaid=0),
            "blocks": _volumes([one.grid for one in args]),
            "threads": _small(_volumes([one.block for one in args]), unsaid=0),
        }

    def _copies(self, events: list[Event], args: list[Args]) -> _Columns:
        return {
            "device": _small([one.device for one in args]),
            "stream": _ints([one.stream for one in args]),
            "correlation": _ints([one.correlation for one in args]),
            "kind": _small(_each(self._copied, copy_kind, events)),
            "bytes": _ints([one.bytes for one in args], unsaid=0),
        }

    def _launches(self, events: list[Event], args: list[Args]) -> _Columns:
        names = self._names
        kernel = [names.setdefault(one.kernel, len(names)) if one.kernel else NOT_SAID for one in args]
        return {
            "name": self._name(events),
            "thread": self._thread(events),
            "correlation": _ints([one.correlation for one in args]),
            "external": _ints([one.external for one in args]),
            "kind": _small(_each(self._calls, call_kind, events)),
            "kernel": _small(kernel),
        }

    def _bands(self, events: list[Event], _: list[Args]) -> _Columns:
        return {"name": self._name(events), "thread": self._thread(events)}

    def _ops(self, events: list[Event], args: list[Args]) -> _Columns:
        telling = _each(self._telling, _tells, events)
        shape = [self._shape(one) if tells else NOT_SAID for one, tells in zip(args, telling, strict=True)]
        return {
            "name": self._name(events),
            "thread": self._thread(events),
            "external": _ints([one.external for one in args]),
            "shape": _small(shape),
        }

    def _shape(self, args: Args) -> int:
        text = bytes(args.dims).decode("utf-8", "replace")
        return self._shapes("".join(text.split())) if text else NOT_SAID

    def _name(self, events: list[Event]) -> Small:
        names = self._names
        return np.array([names.setdefault(event.name, len(names)) for event in events], dtype=np.int32)

    def _thread(self, events: list[Event]) -> Small:
        threads = self._threads
        return np.array([threads.setdefault((event.pid, event.tid), len(threads)) for event in events], dtype=np.int32)

    def trace(self, base: int) -> Trace:
        """Everything so far, in ns from the earliest event; ``base`` is the Unix time that the file counts from."""
        starts = [int(part["start"].min()) for parts in self._parts.values() for part in parts if len(part["start"])]
        earliest = min(starts, default=0)
        return empty()._replace(
            names=tuple(self._names),
            threads=tuple(Thread(0, str(pid), str(tid)) for pid, tid in self._threads),
            shapes=self._shapes.all,
            origin_ns=base + earliest,
            kernels=self._table(Kernels, earliest),
            copies=self._table(Copies, earliest),
            launches=self._table(Launches, earliest),
            bands=self._table(Bands, earliest),
            ops=self._table(Ops, earliest),
        )

    def _table(self, kind: Any, earliest: int) -> Any:
        parts = self._parts.pop(kind)
        if not parts:
            return table(kind)
        columns: _Columns = {name: np.concatenate([part.pop(name) for part in parts]) for name in tuple(parts[0])}
        columns["start"] -= earliest
        columns["end"] -= earliest
        return table(kind, columns)


def _stretch(begin: Any, end: Any) -> tuple[Decimal, Decimal]:
    """Start and length in µs of two times, which may have been decoded differently."""
    try:
        return Decimal(begin), Decimal(end) - Decimal(begin)
    except ArithmeticError:
        return Decimal("nan"), Decimal("nan")


def _each(known: dict[str, Any], what: Callable[[str], Any], events: list[Event]) -> list[Any]:
    """``what`` of every event's name, asked once for each name."""
    for name in {event.name for event in events} - known.keys():
        known[name] = what(name)
    return [known[event.name] for event in events]


def _tells(name: str) -> bool:
    return _TELLING.search(name) is not None


def _volumes(sides: list[list[int]]) -> Ints:
    return _ints([one[0] * one[1] * one[2] if len(one) == 3 else 0 for one in sides], unsaid=0)


def _ints(values: Any, unsaid: int = NOT_SAID) -> Ints:
    """An int64 column; what does not fit is not said."""
    try:
        return np.array(values, dtype=np.int64)
    except OverflowError:
        return np.array([value if abs(value) < 1 << 63 else unsaid for value in values], dtype=np.int64)


def _small(values: Any, unsaid: int = NOT_SAID) -> Small:
    """An int32 column; what does not fit is not said."""
    wide = _ints(values, unsaid)
    return np.where(np.abs(wide) < 1 << 31, wide, unsaid).astype(np.int32)
