"""Kernel summaries of ``nsys stats``: kernels summed by name, without a timeline.

Reports cuda_gpu_kern_sum (gpukernsum before 2023), cuda_gpu_kern_gb_sum and the kernels of cuda_gpu_sum, as CSV or TSV,
alone or among other reports and nsys's own messages. Headers differ by version (``Avg (ns)``, ``Average``) and by
``--timeunit`` (``Total Time (us)``).
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation

from phasewise.errors import InputError
from phasewise.observe.traces.events import Fault, Source, Totals, Trace
from phasewise.observe.traces.opened import Opened
from phasewise.observe.traces.readers import Progress
from phasewise.observe.traces.tables import Names, empty, table

FORM = "Nsight Systems kernel summary (nsys stats --report cuda_gpu_kern_sum --format csv)"

_KEYS = {
    "total time": "total",
    "instances": "instances",
    "med": "median",
    "median": "median",
    "min": "least",
    "minimum": "least",
    "max": "most",
    "maximum": "most",
    "name": "name",
    "operation": "name",
    "category": "category",
}
_NEEDED = {"total", "instances", "name"}
_NANOSECONDS = {"ns": 1, "nsec": 1, "us": 10**3, "usec": 10**3, "ms": 10**6, "msec": 10**6, "s": 10**9, "sec": 10**9}
_HEADING = re.compile(r"\s*([^(]*?)\s*(?:\(([^)]*)\))?\s*$")
_LARGEST = 2**62
_BOM = "\ufeff"

Heading = dict[str, tuple[int, int]]
"""Of each column: its place, and the ns in one of its unit."""


def sniff(opened: Opened) -> bool:
    """A line of the head that is such a table's heading."""
    if b"\0" in opened.head:
        return False
    return any(_heading(line) is not None for line in opened.head.decode("utf-8", "replace").splitlines())


def read(opened: Opened, progress: Progress) -> Trace:
    """One row of `Totals` per row of the table."""
    text = b"".join(opened.blocks()).decode("utf-8", "replace")
    names = Names()
    columns: dict[str, list[float]] = {key: [] for key in ("name", "instances", "total", "median", "least", "most")}
    bad = 0
    for row, heading in _rows(text):
        try:
            if "category" in heading and row[heading["category"][0]] != "CUDA_KERNEL":
                continue
            told = _told(row, heading)
        except (InvalidOperation, ValueError, IndexError):
            bad += 1
            continue
        columns["name"].append(names(row[heading["name"][0]]))
        for key, value in told.items():
            columns[key].append(value)
    if not columns["name"]:
        raise InputError(
            f"{opened.name} has the heading of a kernel summary but no kernel: write it again with nsys stats."
        )
    faults = [Fault("truncated", f"{opened.name}: {opened.truncated}; the rows before it count.")] * bool(
        opened.truncated
    )
    if bad:
        faults.append(Fault("damaged", f"{bad} rows of {opened.name} are no kernel's sums and do not count."))
    if broken := sum("\ufffd" in name for name in names.all):
        faults.append(Fault("encoding", f"{broken} names are no valid UTF-8; the broken letters read \ufffd."))
    progress("kernel summary", 1.0)
    source = Source(path=opened.name, form="Nsight Systems kernel summary", faults=tuple(faults))
    return empty(source)._replace(names=names.all, totals=table(Totals, {**columns}))


def _heading(line: str) -> Heading | None:
    """Columns of a heading, None for any other line. A unit that is not written is that of the total; nsys's is ns."""
    cells = next(csv.reader([line.removeprefix(_BOM)], delimiter="\t" if "\t" in line else ","), [])
    found: dict[str, tuple[int, str]] = {}
    for place, cell in enumerate(cells):
        if (split := _HEADING.match(cell)) and (key := _KEYS.get(split[1].lower())):
            found.setdefault(key, (place, (split[2] or "").strip().lower().replace("μ", "u").replace("µ", "u")))
    if not found.keys() >= _NEEDED:
        return None
    usual = _NANOSECONDS.get(found["total"][1] or "ns")
    if usual is None:
        return None
    return {key: (place, _NANOSECONDS.get(unit, usual)) for key, (place, unit) in found.items()}


def _rows(text: str) -> Iterator[tuple[list[str], Heading]]:
    """The rows under the first heading, up to a blank line."""
    lines = iter(text.splitlines(keepends=True))
    for line in lines:
        if heading := _heading(line):
            rows = csv.reader(lines, delimiter="\t" if "\t" in line else ",")
            while True:
                try:
                    row = next(rows)
                except StopIteration:
                    return
                except csv.Error:
                    row = ["damaged"]
                if not row:
                    return
                yield row, heading


def _told(row: list[str], heading: Heading) -> dict[str, float]:
    """The numbers of a row, times in ns.

    Raises:
        ValueError, InvalidOperation, IndexError: not a kernel's sums.
    """

    def number(key: str) -> Decimal:
        place, unit = heading[key]
        value = Decimal(row[place].replace(",", "")) * (1 if key == "instances" else unit)
        if not 0 <= value < _LARGEST:
            raise ValueError(row[place])
        return value

    if not row[heading["name"][0]]:
        raise ValueError("no name")
    told: dict[str, float] = {key: round(number(key)) for key in ("instances", "total")}
    for key in ("least", "most"):
        told[key] = round(number(key)) if key in heading else 0
    told["median"] = float(number("median")) if "median" in heading else float("nan")
    return told
