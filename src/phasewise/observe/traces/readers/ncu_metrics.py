"""What Nsight Compute calls the counters of `events.Measured`, in reports and raw pages and on details pages.

Raw names: "Metrics Structure" in NVIDIA's Kernel Profiling Guide; display names: the section files that ship with it
(SpeedOfLight, MemoryWorkloadAnalysis, Occupancy, LaunchStatistics), 2019 to 2026.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np

from phasewise.observe.traces.events import NOT_SAID, Measured
from phasewise.observe.traces.tables import Names, table

Dimension = Literal["time", "percent", "bytes", "rate", "frequency", "count"]


class Counter(NamedTuple):
    """One column: every name it has, the first that is there counts, and the dimension that its unit must have."""

    column: str
    dimension: Dimension
    names: tuple[str, ...]


COUNTERS = (
    Counter("duration", "time", ("gpu__time_duration.sum", "gpu__time_duration.avg", "Duration")),
    Counter(
        "compute",
        "percent",
        ("sm__throughput.avg.pct_of_peak_sustained_elapsed", "Compute (SM) Throughput", "SM [%]", "SOL SM"),
    ),
    Counter(
        "memory",
        "percent",
        (
            "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
            "Memory Throughput",
            "Memory [%]",
            "SOL Memory",
        ),
    ),
    Counter(
        "dram",
        "percent",
        (
            "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
            "dram__throughput.avg.pct_of_peak_sustained_elapsed",
            "DRAM Throughput",
            "SOL DRAM",
        ),
    ),
    Counter("waves", "count", ("launch__waves_per_multiprocessor", "Waves Per SM")),
    Counter("warps", "percent", ("sm__warps_active.avg.pct_of_peak_sustained_active", "Achieved Occupancy")),
    Counter("dram_bytes", "bytes", ("dram__bytes.sum",)),
    Counter("read", "bytes", ("dram__bytes_read.sum",)),
    Counter("written", "bytes", ("dram__bytes_write.sum",)),
    Counter("bandwidth", "rate", ("dram__bytes.sum.per_second", "Memory Throughput")),
    Counter(
        "sm_clock",
        "frequency",
        (
            "gpc__cycles_elapsed.avg.per_second",
            "smsp__cycles_elapsed.avg.per_second",
            "sm__cycles_elapsed.avg.per_second",
            "SM Frequency",
        ),
    ),
)
"""The columns of Measured, and the counters that stand in for bytes where their sum was not collected."""

_UNITS: dict[Dimension, re.Pattern[str]] = {
    "time": re.compile(r"([num]?)(?:s|sec|second)s?$"),
    "percent": re.compile(r"()%$|()pct$"),
    "bytes": re.compile(r"([KMGT]?)(?:byte|B)s?$", re.IGNORECASE),
    "rate": re.compile(r"([KMGT]?)(?:byte|B)s?/([num]?)s(?:ec|econd)?$", re.IGNORECASE),
    "frequency": re.compile(r"([KMGT]?)Hz$|cycles?/([num]?)s(?:ec|econd)?$", re.IGNORECASE),
    "count": re.compile(r"$|1$|waves?$"),
}
_LARGE = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_SMALL = {"": 1.0, "M": 1e-3, "U": 1e-6, "N": 1e-9}


def scale(dimension: Dimension, unit: str) -> float | None:
    """What a value in ``unit`` is multiplied with: ns for times, else SI; None for a unit of another dimension.

    Nsight Compute's prefixes are powers of 1000: it shows 100 KiB as 102.40 Kbyte.
    """
    found = _UNITS[dimension].match(unit.strip())
    if not found:
        return None
    prefixes = [(part or "").upper() for part in found.groups()]
    if dimension == "time":
        return _SMALL[prefixes[0]] * 1e9
    if dimension in ("rate", "frequency"):
        return _LARGE[prefixes[0]] / _SMALL[prefixes[1]]
    return _LARGE[prefixes[0]] if dimension == "bytes" else 1.0


Value = Callable[[str, Dimension], float]
"""A counter's value in SI by its name, NaN when it was not collected or is in a unit of another dimension."""


class Kernels:
    """Rows of Measured, kernel by kernel."""

    def __init__(self) -> None:
        self.names = Names()
        self._rows: list[dict[str, float]] = []

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, name: str, value: Value, device: str = "", group: str = "") -> None:
        """One kernel. ``device`` is its name, ``group`` the NVTX ranges around it, each "" when not known."""
        row: dict[str, float] = {
            "name": self.names(short(name)),
            "device": self.names(device) if device else NOT_SAID,
            "group": self.names(group) if group else NOT_SAID,
        }
        for counter in COUNTERS:
            found = (value(one, counter.dimension) for one in counter.names)
            row[counter.column] = next((one for one in found if np.isfinite(one)), np.nan)
        read, written, rate = row.pop("read"), row.pop("written"), row.pop("bandwidth")
        for stand_in in (read + written, rate * row["duration"] * 1e-9):
            if np.isnan(row["dram_bytes"]):
                row["dram_bytes"] = stand_in
        self._rows.append(row)

    def table(self) -> Measured:
        """All of them."""
        columns: dict[str, Any] = {name: [row[name] for row in self._rows] for name in (self._rows or [{}])[0]}
        return table(Measured, columns)


def short(name: str) -> str:
    """A plain function's name without its arguments; templates and namespaces tell what a kernel is and stay."""
    found = re.fullmatch(r"(\w+)\(.*\)", name, re.DOTALL)
    return found[1] if found else name
