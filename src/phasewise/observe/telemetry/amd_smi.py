"""`amd-smi monitor --csv -w 1` and `amd-smi metric --csv`: Unix seconds, a header before each round.

Column names: amdsmi_cli/amdsmi_commands.py of ROCm/amdsmi; older and newer ones stand side by side.
"""

from __future__ import annotations

from phasewise.observe.telemetry import table, text
from phasewise.observe.telemetry.rows import Rows
from phasewise.observe.telemetry.table import Column, Form

FORM = "amd-smi CSV"

_COLUMNS = (
    Column("watts", ("power_usage", "socket_power", "current_socket_power", "average_socket_power")),
    Column("joules", ("total_energy_consumption",)),
    Column("sm_hz", ("gfx_clk", "gfx_clock", "gfx_0_clk"), 1e6),
    Column("memory_hz", ("mem_clock", "mem_0_clk"), 1e6),
    Column("celsius", ("hotspot_temperature", "hotspot")),
    Column("limit_w", ("power_cap", "max_power")),
    Column("utilisation", ("gfx", "gfx_util", "gfx_activity"), 0.01),
    Column("capped", ("power_violation", "pviol", "per_ppt_pwr"), 0.01),
    Column("hot", ("thermal_violation", "tviol", "per_socket_thrm"), 0.01),
)


def sniff(lines: list[str]) -> bool:
    """Whether a header of amd-smi is among the first lines."""
    return any(_is_header(line) for line in lines)


def read(lines: list[str]) -> Rows:
    """Every row.

    Raises:
        Unusable: no power in it, or no row of use.
    """
    found = table.read(lines, Form(_COLUMNS, ("gpu",)), _is_header)
    return found._replace(watts_are="of the socket, as amd-smi says it", counter="total_energy_consumption")


def _is_header(line: str) -> bool:
    names = [text.bare(name) for name in text.fields(line, ",")]
    return "gpu" in names and any(name in names for name in (*_COLUMNS[0].names, *_COLUMNS[1].names))
