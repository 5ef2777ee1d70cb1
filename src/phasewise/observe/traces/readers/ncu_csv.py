"""CSV of Nsight Compute: ``ncu --csv --page raw`` (a row per kernel, units in the second row) and ``--page details`` (a
row per counter). What ncu and the program print may stand before the header.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from math import nan
from typing import NamedTuple

from phasewise.errors import InputError
from phasewise.observe.traces.events import Device, Fault, Source, Trace
from phasewise.observe.traces.opened import Opened
from phasewise.observe.traces.readers import Progress
from phasewise.observe.traces.readers.csv_text import Rows, head, header, lines
from phasewise.observe.traces.readers.ncu_metrics import COUNTERS, Dimension, Kernels, Value, scale
from phasewise.observe.traces.tables import empty

FORM = "Nsight Compute CSV"

_DETAILS = ("Metric Name", "Metric Unit", "Metric Value")
_RANGES = re.compile(r"(Start/Stop|Push/Pop)_Range")
_DEVICE, _SIZE = "device__attribute_display_name", "device__attribute_multiprocessor_count"

_BATCH = 256
"""Rows at a time: those of the raw page are tens of kilobytes."""

_DIMENSIONS: dict[str, tuple[Dimension, ...]] = {
    name: tuple(counter.dimension for counter in COUNTERS if name in counter.names)
    for counter in COUNTERS
    for name in counter.names
}
"""What every counter that is taken may be measured in."""


class _Cell(NamedTuple):
    unit: str
    text: str


class _Kernel(NamedTuple):
    """A kernel as it stands there: two counters may share a display name."""

    name: str
    group: str
    counters: dict[str, list[_Cell]]


class _Page:
    """The kernels of one page, and what of it could not be used."""

    def __init__(self, opened: Opened, progress: Progress) -> None:
        self.kernels: dict[tuple[object, ...], _Kernel] = {}
        self.damaged = 0
        self.cut = ""
        self._last = "\n"
        text = lines(opened)
        self._columns = header(text, _is_header)
        self.details = _DETAILS[0] in self._columns
        self._places = {name: place for place, name in reversed(list(enumerate(self._columns)))}
        self._ranges = [place for name, place in self._places.items() if _RANGES.search(name)]
        self._units: list[str] = []
        self._part = 0
        rows = Rows(self._seen(text))
        held: list[str] = []
        for batch in rows.batches(_BATCH):
            for row in batch:
                self._take(held)
                held = row
            progress("reading", opened.done / opened.size)
        self.cut = opened.truncated
        if self._last.count('"') % 2:
            # The last cell was cut in the middle, and half a number looks like a number.
            self.cut = self.cut or "the last line is not whole"
            held = held[:-1]
        self._take(held)
        self.damaged += rows.damaged

    def _seen(self, text: Iterator[str]) -> Iterator[str]:
        for line in text:
            self._last = line
            yield line

    def _take(self, row: list[str]) -> None:
        if not row or row[0].startswith("=="):
            return
        if [cell.strip() for cell in row] == self._columns:
            # Several files, one after the other: their ids start again.
            self._part, self._units = self._part + 1, []
        elif not self.details and not self._units and not self._cell(row, "ID"):
            self._units = row
        elif len(row) <= self._places["Kernel Name"] or len(row) > len(self._columns):
            self.damaged += 1
        elif self.details:
            if len(row) > self._places[_DETAILS[2]] and (name := self._cell(row, _DETAILS[0])):
                self._kernel(row).setdefault(name, []).append(
                    _Cell(self._cell(row, _DETAILS[1]), self._cell(row, _DETAILS[2]))
                )
        else:
            self._wide(row)

    def _wide(self, row: list[str]) -> None:
        counters = self._kernel(row)
        for place, name in enumerate(self._columns[: len(row)]):
            if name in _DIMENSIONS or name in (_DEVICE, _SIZE):
                unit = self._units[place] if place < len(self._units) else ""
                counters.setdefault(name, []).append(_Cell(unit, row[place]))

    def _kernel(self, row: list[str]) -> dict[str, list[_Cell]]:
        key = (self._part, *(self._cell(row, name) for name in ("Process ID", "ID")))
        if key not in self.kernels:
            group = "/".join(name for place in self._ranges if place < len(row) for name in _ranges(row[place]))
            self.kernels[key] = _Kernel(self._cell(row, "Kernel Name"), group, {})
        return self.kernels[key].counters

    def _cell(self, row: list[str], name: str) -> str:
        place = self._places.get(name, len(row))
        return row[place].strip() if place < len(row) else ""


def sniff(opened: Opened) -> bool:
    """A header with the kernel's name and either the columns of the details page or counters."""
    return bool(header(iter(head(opened)), _is_header))


def _is_header(row: list[str]) -> bool:
    names = {cell.strip() for cell in row}
    counters = any(name in _DIMENSIONS or re.match(r"[a-z][a-z0-9]*__\w", name) for name in names)
    return names.issuperset(("ID", "Kernel Name")) and (names.issuperset(_DETAILS) or counters)


def read(opened: Opened, progress: Progress) -> Trace:
    """Every kernel with its counters.

    Raises:
        InputError: it holds no kernel.
    """
    page = _Page(opened, progress)
    if not page.kernels:
        raise InputError(f"{opened.name} holds a header and no kernel: profile again with ncu --csv --page raw.")
    cells = (cell for kernel in page.kernels.values() for cells in kernel.counters.values() for cell in cells)
    comma = _decimal_comma(cell.text for cell in cells)
    made = Kernels()
    devices: dict[str, Device] = {}
    for kernel in page.kernels.values():
        value = _values(kernel, comma)
        device = next((cell.text.strip() for cell in kernel.counters.get(_DEVICE, ())), "")
        if device and device not in devices:
            count = value(_SIZE, "count")
            devices[device] = Device(len(devices), device, int(count) if count == count else 0)
        made.add(kernel.name, value, device, kernel.group)
    form = f"{FORM} ({'details' if page.details else 'raw'} page)"
    source = Source(opened.name, form, devices=tuple(devices.values()), faults=tuple(_faults(page)))
    return empty(source)._replace(names=made.names.all, measured=made.table())


def _values(kernel: _Kernel, comma: bool) -> Value:
    def value(name: str, dimension: Dimension) -> float:
        for cell in kernel.counters.get(name, ()):
            factor = scale(dimension, cell.unit)
            if factor is not None:
                return _number(cell.text, comma) * factor
        return nan

    return value


def _faults(page: _Page) -> Iterator[Fault]:
    if page.cut:
        yield Fault("truncated", f"The file breaks off ({page.cut}); what came before is used.")
    if page.damaged:
        yield Fault("damaged", f"{page.damaged:,} rows could not be read and are left out.")
    odd = {
        f"{name} [{cell.unit}]"
        for kernel in page.kernels.values()
        for name, cells in kernel.counters.items()
        for cell in cells
        if name in _DIMENSIONS and all(scale(it, cell.unit) is None for it in _DIMENSIONS[name])
    }
    if odd:
        some = ", ".join(sorted(odd)[:3])
        yield Fault(
            "damaged", f"{len(odd)} counters have units that are not theirs and count as not collected: {some}."
        )
    if any("\ufffd" in kernel.name for kernel in page.kernels.values()):
        yield Fault("encoding", "Some names are not valid text; the bytes that are not read as U+FFFD.")


def _ranges(cell: str) -> Iterator[str]:
    """Names of the NVTX ranges in a cell: ``13416  "<default domain>:prefill:none:none:none:none:none:none"``."""
    for quoted in re.findall(r'"([^"]*)"', cell) or [cell]:
        # After the name come type and value of the payload, of the colour and of the message.
        parts = quoted.rsplit(":", 6)
        if len(parts) == 7:
            yield parts[0].split(":", 1)[-1]


_POINT = re.compile(r"\d,\d{3}\.\d|^-?\d+\.(?:\d{1,2}|\d{4,})$")
_COMMA = re.compile(r"\d\.\d{3},\d|^-?\d+,(?:\d{1,2}|\d{4,})$")


def _decimal_comma(texts: Iterable[str]) -> bool:
    """Whether numbers are written 1.234,56: only when some can be nothing else and none says the opposite."""
    point = comma = False
    for text in texts:
        point = point or _POINT.search(text.strip()) is not None
        comma = comma or _COMMA.search(text.strip()) is not None
    return comma and not point


def _number(text: str, comma: bool) -> float:
    """NaN for ``n/a`` and everything else that is no number."""
    plain = re.sub(r"[\s'’]", "", text)
    plain = plain.replace(".", "").replace(",", ".") if comma else plain.replace(",", "")
    try:
        return float(plain)
    except ValueError:
        return nan
