"""What the readers of AMD's profilers share: how rows become a trace.

Their clock is the host's, in ns since it was booted: the origin is 0 and the files of one machine agree on it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phasewise.errors import InputError
from phasewise.observe.traces.events import (
    NOT_SAID,
    Bands,
    Copies,
    Counters,
    Fault,
    Kernels,
    Launches,
    Ops,
    Source,
    Thread,
    Totals,
    Trace,
)
from phasewise.observe.traces.readers.calls import call_kind
from phasewise.observe.traces.tables import Names, empty, rows, table

_CALL = re.compile(r"roctx[A-Z]\w*$")
"""A function of the marker library itself, which names no range."""

_TAIL = re.compile(r", (?:seq|op_id|sizes|input_op_ids) = [\d\[].*$", re.DOTALL)
_SIZES = re.compile(r", sizes = (\[.*?\])(?:, input_op_ids|$)", re.DOTALL)
_OPERATOR = re.compile(r"[A-Za-z_]\w*::[\w.]+$|\w+Backward\d*$")
"""PyTorch's emit_nvtx writes a range per operator, ``aten::mm, seq = 4, op_id = 31, sizes = [[8, 16], [16, 4]]``."""

_PHASE = re.compile(r"prefill|decod", re.IGNORECASE)
"""A user's own range may have a namespace too: ``engine::prefill``."""

_TABLES = (Kernels, Copies, Launches, Bands, Ops, Counters, Totals)


class Gathered:
    """Rows of one file, gathered in batches; `trace` makes the tables.

    ``damaged`` counts rows that were left out because they could not be read.
    """

    def __init__(self) -> None:
        self.names, self.shapes = Names(), Names()
        self.damaged = 0
        self._threads: dict[tuple[str, str], int] = {}
        self._parts: dict[Any, list[dict[str, Any]]] = {kind: [] for kind in _TABLES}

    def add(self, kind: Any, columns: dict[str, Any]) -> None:
        """Rows of one table, as `tables.table` takes them: the same columns every time."""
        self._parts[kind].append(columns)

    def named(self, names: Sequence[str]) -> NDArray[np.int32]:
        """Index of every name."""
        for name in dict.fromkeys(names):
            self.names(name)
        return np.fromiter(map(self.names.index.__getitem__, names), np.int32, len(names))

    def thread(self, pid: object, tid: object) -> int:
        """Index of a thread."""
        return self._threads.setdefault((str(pid), str(tid)), len(self._threads))

    def on(self, pids: Sequence[object], tids: Sequence[object]) -> NDArray[np.int32]:
        """Index of the thread of every row."""
        return np.fromiter(map(self.thread, pids, tids), np.int32, len(pids))

    def calls(self, names: Sequence[str]) -> dict[str, NDArray[np.int32]]:
        """The columns of `Launches` that the function's name tells."""
        kinds = np.fromiter(map(call_kind, names), np.int32, len(names))
        return {"name": self.named(names), "kind": kinds}

    def ranges(self, start: Any, end: Any, thread: Any, names: Sequence[str]) -> None:
        """Ranges on CPU threads: operators of PyTorch, or bands. Marks, which have no length, are neither."""
        plain = [_TAIL.sub("", name) for name in names]
        operator = np.array([bool(_OPERATOR.match(it)) and not _PHASE.search(it) for it in plain], bool)
        kept = np.array([bool(it) and not _CALL.match(it) for it in plain], bool) & (start != end)
        columns = {"start": start, "end": end, "thread": thread, "name": self.named(plain)}
        sizes = [_SIZES.search(name) for name in names]
        shape = np.array([self.shapes(it[1]) if it else NOT_SAID for it in sizes], np.int64)
        for kind, extra, chosen in (
            (Bands, {}, kept & ~operator),
            (Ops, {"shape": shape}, kept & operator),
        ):
            self.add(kind, {name: column[chosen] for name, column in (columns | extra).items()})

    def trace(self, source: Source, cure: str) -> Trace:
        """Everything gathered; rows that end before they start are left out and said.

        Raises:
            InputError: nothing was; ``cure`` ends the sentence.
        """
        made: dict[str, Any] = {}
        backwards = 0
        for kind, parts in self._parts.items():
            columns: dict[str, Any] = {}
            for name in parts[0] if parts else ():
                columns[name] = np.concatenate([part[name] for part in parts])
            whole = table(kind, columns)
            if hasattr(whole, "start"):
                forward = whole.end >= whole.start
                backwards += len(forward) - int(forward.sum())
                whole = whole if forward.all() else rows(whole, forward)
            made[kind.__name__.lower()] = whole
        faults = list(source.faults)
        if self.damaged:
            faults.append(Fault("damaged", f"{self.damaged:,} rows could not be read and are left out."))
        if backwards:
            faults.append(Fault("damaged", f"{backwards:,} events end before they start and are left out."))
        if any("\ufffd" in name for name in self.names.index):
            faults.append(Fault("encoding", "Some names are not valid text; the bytes that are not read as U+FFFD."))
        if not any(len(made[kind.__name__.lower()][0]) for kind in _TABLES):
            why = f" ({'; '.join(fault.detail for fault in faults)})" if faults else ""
            raise InputError(f"{source.path} holds no event that can be used{why}: {cure}.")
        threads = tuple(Thread(0, pid, tid) for pid, tid in self._threads)
        source = source._replace(faults=tuple(faults))
        return empty(source)._replace(names=self.names.all, threads=threads, shapes=self.shapes.all, **made)


@lru_cache(maxsize=4096)
def blocks(items: tuple[int, ...], group: tuple[int, ...]) -> tuple[int, int]:
    """Blocks of a grid and threads of a block, from HSA's work-items and group sizes per axis; 0 where not said.

    A model launches few shapes many times.
    """
    if min(*items, *group) <= 0:
        return 0, 0
    many = prod(-(-whole // part) for whole, part in zip(items, group, strict=True))
    return min(many, 2**63 - 1), min(prod(group), 2**31 - 1)
