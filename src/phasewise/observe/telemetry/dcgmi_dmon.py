"""`dcgmi dmon -e ...`: columns by DCGM's short names, a second line of units, the header again every few rows.

    #Entity   POWER      TOTEC      SMCLK
    ID        W          mJ
    GPU 0     431.201    98123456   1980

It tells no time of its own; a time that something else (``ts``) set before each row is read.
"""

from __future__ import annotations

import re

from phasewise.hardware.power.base import MEAN_S, held
from phasewise.observe.telemetry.rows import Clock, Row, Rows, Unusable, by_one_clock, number
from phasewise.observe.telemetry.times import Moment, moment

FORM = "dcgmi dmon"

_COLUMNS = {
    "POWINST": ("watts", 1.0),
    "POWER": ("watts", 1.0),
    "TOTEC": ("joules", 1e-3),
    "SMCLK": ("sm_hz", 1e6),
    "MMCLK": ("memory_hz", 1e6),
    "TMPTR": ("celsius", 1.0),
    "EPLMT": ("limit_w", 1.0),
    "PMLMT": ("limit_w", 1.0),
    "GPUTL": ("utilisation", 0.01),
}
"""DCGM's short name (dcgm_fields.cpp), the field of a reading, the factor to SI; of two for one the first counts."""

_ROW = re.compile(r"^(?P<time>.*?)\s*\bGPU\s+(?P<gpu>\d+)\s+(?P<values>\S.*)$")


def sniff(lines: list[str]) -> bool:
    """Whether a header of dcgmi is among the first lines."""
    return any(_names(line) for line in lines)


def read(lines: list[str]) -> Rows:
    """Every row of a GPU; those of slices, links and CPUs are passed over.

    Raises:
        Unusable: no power in it, or no row of use.
    """
    names: list[str] = []
    rows, damaged, ticks = list[tuple[Row, Clock]](), 0, dict[int, int]()
    for line in lines:
        if header := _names(line):
            names = header
            continue
        found = _ROW.match(line.strip())
        if found is None:
            continue
        values = found["values"].split()
        when = _when(found["time"])
        if len(values) != len(names) or (found["time"] and when is None):
            damaged += 1
            continue
        index = int(found["gpu"])
        ticks[index] = ticks.get(index, -1) + 1
        named = _values(dict(zip(names, values, strict=True)))
        if named:
            rows.append((Row(when.at if when else float(ticks[index]), index, named), when.clock if when else "none"))
    if not any("watts" in row.values or "joules" in row.values for row, _ in rows):
        raise Unusable("holds no power: record it with dcgmi dmon -e 155,156,100,101,150,164,203,112.")
    kept, clock, without = by_one_clock(rows)
    damaged += without
    notes = (f"{damaged:,} rows are cut off or damaged and are left out.",) if damaged else ()
    averages = 0.0 if any("POWINST" in _names(line) for line in lines) else MEAN_S
    return Rows(kept, clock, "as DCGM last collected them", "DCGM's TOTEC", averages, notes)


def _names(line: str) -> list[str]:
    found = line.replace("# Entity", "#Entity").split()
    place = next((i for i, word in enumerate(found) if word.lower() == "#entity"), None)
    return [] if place is None else [word.upper() for word in found[place + 1 :]]


def _when(text: str) -> Moment | None:
    return moment(text.strip("[] ")) if text else None


def _values(named: dict[str, str]) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, (field, factor) in _COLUMNS.items():
        value = number(named.get(name, ""))
        if value is not None:
            found.setdefault(field, value * factor)
    bits = number(named.get("DVCCTR", ""))
    return found if bits is None else found | held(int(bits))
