"""`nvidia-smi dmon`: columns as its header names them, which differ by driver and by -s; also as CSV.

    #Date        Time         gpu    pwr  gtemp  mtemp     sm ...   mclk   pclk  pviol  tviol
    #YYYYMMDD    HH:MM:SS     Idx      W      C      C      % ...    MHz    MHz      %   bool

Without -o DT it tells no time. ``pviol`` is the percentage of time that the power limit held clocks down, ``tviol`` a
boolean. ``sm`` is what nvidia-smi calls GPU utilisation: a kernel was resident.
"""

from __future__ import annotations

from collections.abc import Mapping

from phasewise.hardware.power.base import MEAN_S
from phasewise.observe.telemetry import text
from phasewise.observe.telemetry.rows import Clock, Row, Rows, Unusable, by_one_clock, number
from phasewise.observe.telemetry.times import moment

FORM = "nvidia-smi dmon"

_COLUMNS = {
    "pwr": ("watts", 1.0),
    "pclk": ("sm_hz", 1e6),
    "gclk": ("sm_hz", 1e6),
    "mclk": ("memory_hz", 1e6),
    "gtemp": ("celsius", 1.0),
    "temp": ("celsius", 1.0),
    "sm": ("utilisation", 0.01),
    "pviol": ("capped", 0.01),
    "tviol": ("hot", 1.0),
}
"""dmon's column, the field of a reading, and the factor to SI."""


def sniff(lines: list[str]) -> bool:
    """Whether a header of dmon is among the first lines."""
    return any(_names(line) for line in lines)


def read(lines: list[str]) -> Rows:
    """Every row.

    Raises:
        Unusable: no power in it, or no row of use.
    """
    names: list[str] = []
    rows, damaged, ticks = list[tuple[Row, Clock]](), 0, dict[int, int]()
    for line in lines:
        if header := _names(line):
            names = header
            continue
        if not line.strip() or line.lstrip().startswith("#") or not names:
            continue
        found = _fields(line)
        if found and found[0] in ("s", "Idx", "YYYYMMDD", "HH:MM:SS"):
            continue  # units, where the file was made a CSV
        named = dict(zip(names, found, strict=False))
        device = number(named.get("gpu", ""))
        if len(found) != len(names) or device is None:
            damaged += 1
            continue
        index = int(device)
        ticks[index] = ticks.get(index, -1) + 1
        when = _when(named)
        row = Row(when[0] if when else float(ticks[index]), index, _values(named))
        if row.values:
            rows.append((row, when[1] if when else "none"))
    if not any("watts" in row.values for row, _ in rows):
        raise Unusable("holds no power: record it with nvidia-smi dmon -s puc -o DT.")
    kept, clock, without = by_one_clock(rows)
    damaged += without
    left = f"{damaged:,} of {damaged + len(kept):,} rows are cut off or damaged and are left out."
    notes = (left,) if damaged else ()
    return Rows(kept, clock, watts_are="as dmon says it, whole watts", averages_s=MEAN_S, notes=notes)


def _names(line: str) -> list[str]:
    """The names of a header; none when the line is no header."""
    found = [name.lower() for name in _fields(line.strip().lstrip("#"))]
    ours = "gpu" in found and any(name in _COLUMNS for name in found)
    return found if ours and not any(name[:1].isdigit() for name in found) else []


def _fields(line: str) -> list[str]:
    return text.fields(line, ",") if "," in line else line.split()


def _when(named: Mapping[str, str]) -> tuple[float, Clock] | None:
    date, time = named.get("date", ""), named.get("time", "")
    if len(date) == 8 and date.isdigit():
        return moment(f"{date[:4]}-{date[4:6]}-{date[6:]} {time}")
    return moment(time) if time else None


def _values(named: Mapping[str, str]) -> dict[str, float]:
    found = {}
    for name, (field, factor) in _COLUMNS.items():
        value = number(named.get(name, ""))
        if value is not None:
            found[field] = value * factor
    return found
