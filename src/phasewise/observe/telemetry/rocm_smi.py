"""`rocm-smi --csv`, in a loop: ``device,...,Average Graphics Package Power (W),...`` and a row per card.

It tells no time of its own; a column of time that the loop set before it is read. ROCm 6 says ``Current Socket`` where
5 said ``Average``; a secondary die has ``N/A (Secondary die)``, its power is in the primary's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from phasewise.observe.telemetry import table, text
from phasewise.observe.telemetry.rows import Rows, number
from phasewise.observe.telemetry.table import Column, Form

FORM = "rocm-smi CSV"

_COLUMNS = (
    Column(
        "watts",
        ("current socket graphics package power", "average graphics package power", "current graphics package power"),
    ),
    Column("joules", ("accumulated energy",), 1e-6),
    Column("celsius", ("temperature (sensor junction)", "temperature (sensor edge)")),
    Column("limit_w", ("max graphics package power",)),
    Column("utilisation", ("gpu use",), 0.01),
)


def sniff(lines: list[str]) -> bool:
    """Whether a header of rocm-smi is among the first lines."""
    return any(_is_header(line) for line in lines)


def read(lines: list[str]) -> Rows:
    """Every row.

    Raises:
        Unusable: no power in it, or no row of use.
    """
    found = table.read(
        lines, Form(_COLUMNS, ("device",), ("unique id",), ("card series", "device name"), _clocks, _card), _is_header
    )
    return found._replace(watts_are="of the package, as rocm-smi says it", counter="Accumulated Energy")


def _is_header(line: str) -> bool:
    names = text.fields(line, text.delimiter(line))
    return "device" in names and any("Package Power" in name or name == "GPU use (%)" for name in names)


def _card(said: str) -> float | None:
    found = re.fullmatch(r"card(\d+)", said)
    return float(found[1]) if found else None


def _clocks(named: Mapping[str, str]) -> dict[str, float]:
    """``sclk clock speed:`` holds ``(1700Mhz)``."""
    found = {}
    for name, field in (("sclk clock speed:", "sm_hz"), ("mclk clock speed:", "memory_hz")):
        value = number(named.get(name, "").strip("()"))
        if value is not None:
            found[field] = value * 1e6
    return found
