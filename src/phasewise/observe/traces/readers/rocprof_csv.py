"""CSV of AMD's profilers: the traces and kernel summaries of rocprofv3, and results.csv of rocprof and rocprofv2.

Columns: ROCm/rocprofiler-sdk, source/lib/output/generateCSV.cpp. One process gives one file per domain.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phasewise.errors import InputError
from phasewise.observe.traces.events import (
    NOT_SAID,
    Copies,
    Device,
    Fault,
    Kernels,
    Launches,
    Source,
    Totals,
    Trace,
)
from phasewise.observe.traces.opened import Opened
from phasewise.observe.traces.readers import Progress
from phasewise.observe.traces.readers.calls import copy_kind
from phasewise.observe.traces.readers.csv_text import Rows, head, header, lines
from phasewise.observe.traces.readers.rocm import Gathered, blocks

FORM = "rocprof CSV"

_BATCH = 1000
"""Rows that are turned into columns at a time."""

Cells = dict[str, Sequence[str]]


class _Kind(NamedTuple):
    """One kind of file: the columns that tell it (every one of a tuple is another name), and what takes its rows.

    ``other`` in the first column of the first row tells a file of another kind with the same columns.
    """

    name: str
    columns: tuple[tuple[str, ...], ...]
    other: re.Pattern[str]
    take: Callable[[Gathered, Cells], None]


def sniff(opened: Opened) -> bool:
    """The columns of one of the kinds are there, in the first row or behind lines of noise."""
    start = iter(head(opened))
    kind = _kind(header(start, _known))
    first = next((row for row in csv.reader(start) if row), None)
    return kind is not None and not (first and kind.other.match(first[0]))


def read(opened: Opened, progress: Progress) -> Trace:
    """Kernels, copies, calls, ranges or totals, as the file's header says.

    Raises:
        InputError: it holds no row that can be used.
    """
    text = lines(opened)
    columns = _names(header(text, _known))
    kind = _kind(columns)
    if kind is None:
        raise InputError(f"{opened.name} has no header that rocprof writes: name its kernel_trace.csv.")
    rows = Rows(text)
    got = Gathered()
    for cells, left_out in _batches(columns, rows):
        got.damaged += left_out
        if cells[columns[0]]:
            kind.take(got, cells)
        progress("reading", opened.done / opened.size)
    got.damaged += rows.damaged
    faults = (Fault("truncated", f"{opened.truncated}; the rows before that are used."),) if opened.truncated else ()
    source = Source(opened.name, f"{FORM} ({kind.name})", faults=faults)
    trace = got.trace(source, "record it again with rocprofv3 --kernel-trace")
    devices = np.unique(np.concatenate((trace.kernels.device, trace.copies.device))).tolist()
    # The agents' names are in agent_info.csv, not here.
    named = tuple(Device(device, "") for device in devices if device != NOT_SAID)
    return trace._replace(sources=(trace.sources[0]._replace(devices=named),))


def _batches(names: list[str], rows: Rows) -> Iterator[tuple[Cells, int]]:
    """The rows as columns, and how many had another length than the header."""
    for batch in rows.batches(_BATCH):
        whole = [row for row in batch if len(row) == len(names)]
        blank = sum(not row for row in batch)
        columns: Sequence[Sequence[str]] = list(zip(*whole, strict=True)) or [()] * len(names)
        # Of two columns of one name the first counts.
        yield dict(zip(reversed(names), reversed(columns), strict=True)), len(batch) - len(whole) - blank


def _names(row: list[str]) -> list[str]:
    return [cell.strip().lower().replace("-", "_") for cell in row]


def _kind(row: list[str]) -> _Kind | None:
    names = set(_names(row))
    for kind in _KINDS:
        if all(names.intersection(either) for either in kind.columns) and "counter_name" not in names:
            return kind
    return None


def _known(row: list[str]) -> bool:
    return _kind(row) is not None


_START, _END = ("start_timestamp", "beginns"), ("end_timestamp", "stop_timestamp", "endns")
_NAME = ("kernel_name", "kernelname")
_SUFFIX = re.compile(r"(?: \[clone \.kd\]|\.kd)$")
"""rocprof names the kernel's descriptor."""


def _column(cells: Cells, names: Sequence[str]) -> Sequence[str] | None:
    return next((cells[name] for name in names if name in cells), None)


def _ids(cells: Cells, *names: str) -> NDArray[np.int64]:
    """A column of numbers, some with a word before them (``Agent 7``, ``GPU 3``)."""
    column = _column(cells, names)
    if column is None:
        return np.full(len(next(iter(cells.values()))), NOT_SAID, np.int64)
    try:
        return np.fromiter(map(int, column), np.int64, len(column))
    except (ValueError, OverflowError):
        return np.fromiter(map(_id, column), np.int64, len(column))


@lru_cache(maxsize=4096)
def _id(cell: str) -> int:
    found = re.fullmatch(r"\s*(?:[A-Za-z]+[ -]?)?([0-9]{1,18})\s*", cell)
    return int(found[1]) if found else NOT_SAID


def _timed(got: Gathered, cells: Cells) -> tuple[Cells, dict[str, Any]]:
    """The rows that have times, and the times."""
    start, end = _ids(cells, *_START), _ids(cells, *_END)
    good = (start >= 0) & (end >= 0)
    if good.all():
        return cells, {"start": start, "end": end}
    got.damaged += len(good) - int(good.sum())
    return _kept(cells, good), {"start": start[good], "end": end[good]}


def _kept(cells: Cells, good: NDArray[np.bool_]) -> Cells:
    return {name: [cell for cell, kept in zip(column, good, strict=True) if kept] for name, column in cells.items()}


def _kernels(got: Gathered, cells: Cells) -> None:
    cells, times = _timed(got, cells)
    shapes = _GRID if _GRID[0] in cells else tuple(next((it for it in _FLAT[end] if it in cells), "") for end in (0, 1))
    columns = [cells[name] for name in shapes if name in cells]
    sizes = list(map(_size, *columns)) if len(columns) == len(shapes) else [(0, 0)] * len(times["start"])
    got.add(
        Kernels,
        times
        | {
            "name": got.named([_SUFFIX.sub("", name) for name in _column(cells, _NAME) or ()]),
            "device": _ids(cells, "agent_id", "gpu_id"),
            "stream": _ids(cells, "stream_id", "queue_id"),
            "correlation": _ids(cells, "correlation_id"),
            "blocks": np.array([many for many, _ in sizes], np.int64),
            "threads": np.array([each for _, each in sizes], np.int64),
        },
    )


_GRID = tuple(f"{of}_size_{axis}" for of in ("grid", "workgroup") for axis in "xyz")
_FLAT = (("grid_size", "grd"), ("workgroup_size", "wgr"))


@lru_cache(maxsize=4096)
def _size(*cells: str) -> tuple[int, int]:
    sizes = tuple(map(_id, cells))
    return blocks(sizes[: len(sizes) // 2], sizes[len(sizes) // 2 :])


def _copies(got: Gathered, cells: Cells) -> None:
    cells, times = _timed(got, cells)
    kinds = np.array([copy_kind(way) for way in cells["direction"]], np.int64)
    source, target = _ids(cells, "source_agent_id"), _ids(cells, "destination_agent_id")
    got.add(
        Copies,
        times
        | {
            # The host is an agent too: the device of a copy to the host is where it comes from.
            "device": np.where(kinds == copy_kind("DEVICE_TO_HOST"), source, target),
            "stream": _ids(cells, "stream_id"),
            "correlation": _ids(cells, "correlation_id"),
            "kind": kinds,
        },
    )


def _calls(got: Gathered, cells: Cells) -> None:
    """Calls of HIP and RCCL; in the marker domain the function's name is the range's. HSA calls repeat HIP's below."""
    cells, times = _timed(got, cells)
    thread = got.on(*(_said(cells, name) for name in ("process_id", "thread_id")))
    correlation = _ids(cells, "correlation_id")
    domains = [domain.upper() for domain in cells["domain"]]
    names = np.array(cells["function"], object)
    marker = np.array([domain.startswith(("MARKER", "ROCTX")) for domain in domains], bool)
    calls = ~marker & np.array([not domain.startswith("HSA") for domain in domains], bool)
    got.add(
        Launches,
        {name: column[calls] for name, column in times.items()}
        | got.calls(names[calls].tolist())
        | {"thread": thread[calls], "correlation": correlation[calls]},
    )
    got.ranges(times["start"][marker], times["end"][marker], thread[marker], names[marker].tolist())


def _said(cells: Cells, name: str) -> Sequence[str]:
    return cells.get(name, [""] * len(cells["function"]))


def _totals(got: Gathered, cells: Cells) -> None:
    calls, total = _ids(cells, "calls"), _ids(cells, "totaldurationns")
    good = (calls >= 0) & (total >= 0)
    got.damaged += len(good) - int(good.sum())
    cells = _kept(cells, good)
    columns: dict[str, Any] = {"name": got.named(cells["name"])}
    for ours, theirs in (("instances", "calls"), ("total", "totaldurationns"), ("least", "minns"), ("most", "maxns")):
        if theirs in cells:
            columns[ours] = _ids(cells, theirs)
    got.add(Totals, columns)


_NO_OTHER = re.compile(r"(?!)")
_KINDS = (
    _Kind("kernels", (_NAME, _START, _END), _NO_OTHER, _kernels),
    _Kind("copies", (("direction",), _START, _END), _NO_OTHER, _copies),
    _Kind("calls and ranges", (("domain",), ("function",), _START, _END), re.compile("HSA_"), _calls),
    # Calls, copies and domains are summed under the same columns.
    _Kind(
        "kernel totals",
        (("name",), ("calls",), ("totaldurationns",)),
        re.compile(r"(?:(?:__)?(?:hip[A-Z]|hsa_|roctx[A-Z])\w*|nccl[A-Z][a-zA-Z]+|[A-Z_]+)$"),
        _totals,
    ),
)
