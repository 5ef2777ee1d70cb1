"""`nvidia-smi --query-gpu=... --format=csv`, with or without units, of drivers old and new.

Its timestamp is local time without a zone. Field names: `nvidia-smi --help-query-gpu`; power.draw is the mean of the
last second from Ampere on (GA100 left out), power.draw.instant came with driver 530, clocks_throttle_reasons became
clocks_event_reasons with 535.
"""

from __future__ import annotations

from collections.abc import Mapping

from phasewise.hardware.power.base import MEAN_S, held
from phasewise.observe.telemetry import table, text
from phasewise.observe.telemetry.rows import Rows
from phasewise.observe.telemetry.table import Column, Form

FORM = "nvidia-smi CSV"

_WATTS = ("power.draw.instant", "power.draw", "power.draw.average", "power_draw", "power.draw.w")

_COLUMNS = (
    Column("watts", _WATTS),
    Column("joules", ("total_energy_consumption", "energy.total"), 1e-3),
    Column("sm_hz", ("clocks.current.sm", "clocks.sm", "clocks.current.graphics", "clocks.gr"), 1e6),
    Column("memory_hz", ("clocks.current.memory", "clocks.mem"), 1e6),
    Column("celsius", ("temperature.gpu",)),
    Column("limit_w", ("enforced.power.limit", "power.limit")),
    Column("utilisation", ("utilization.gpu",), 0.01),
)

_PREFIXES = ("clocks_event_reasons.", "clocks_throttle_reasons.")

_REASONS = {
    "capped": ("sw_power_cap",),
    "hot": ("sw_thermal_slowdown", "hw_thermal_slowdown"),
    "slowed": ("hw_slowdown", "hw_power_brake_slowdown"),
}


def sniff(lines: list[str]) -> bool:
    """Whether a header with names of nvidia-smi is among the first lines."""
    return any(_is_header(line) for line in lines)


def read(lines: list[str]) -> Rows:
    """Every row.

    Raises:
        Unusable: no power in it, or no row of use.
    """
    found = table.read(
        lines,
        Form(_COLUMNS, ("index", "gpu"), ("uuid", "gpu_uuid"), ("name", "gpu_name"), _reasons),
        _is_header,
    )
    header = next(line for line in lines if _is_header(line)).lower()
    instant = "power.draw.instant" in header
    are = "instantaneous" if instant else "as power.draw says it (from Ampere on the mean of a second)"
    return found._replace(watts_are=are, counter="total_energy_consumption", averages_s=0.0 if instant else MEAN_S)


def _is_header(line: str) -> bool:
    names = [text.bare(name) for name in text.fields(line, text.delimiter(line))]
    own = sum(name.startswith(("power.", "clocks.", "clocks_", "utilization.", "temperature.gpu")) for name in names)
    return own > 0 and not any(name[:1].isdigit() for name in names)


def _reasons(named: Mapping[str, str]) -> dict[str, float]:
    """Whether each kind of throttling was active, of the bits or of the words."""
    found: dict[str, float] = {}
    for prefix in _PREFIXES:
        bits = named.get(f"{prefix}active", "")
        if bits.lower().startswith("0x"):
            try:
                value = int(bits, 16)
            except ValueError:
                continue
            found |= held(value)
        for field, names in _REASONS.items():
            said = [named.get(prefix + name, "").lower() for name in names]
            words = [word for word in said if word in ("active", "not active")]
            if words:
                found[field] = max(found.get(field, 0.0), float("active" in words))
    return found
