"""Saved pages of a DCGM exporter, one after the other.

A page's time is the one that its samples carry, else that of a line before it: a bare time, or a comment that ends with
one (``# 2026-11-30T14:30:00Z``, ``1796049000``).
"""

from __future__ import annotations

from phasewise.hardware.power import dcgm
from phasewise.hardware.power.base import MEAN_S
from phasewise.observe.telemetry.rows import Clock, Row, Rows, Unusable
from phasewise.observe.telemetry.series import FIELDS
from phasewise.observe.telemetry.times import Moment, moment

FORM = "DCGM exporter's pages"

_INSTANT = ("DCGM_FI_DEV_POWER_USAGE_INSTANT{", "DCGM_FI_DEV_BOARD_POWER_RAW_WATTS{")


def sniff(lines: list[str]) -> bool:
    """Whether a field of DCGM stands at the start of a line."""
    return any(line.startswith(("DCGM_FI_", "# HELP DCGM_", "# TYPE DCGM_")) for line in lines)


def read(lines: list[str]) -> Rows:
    """Every page.

    Raises:
        Unusable: no power in it.
    """
    rows: list[Row] = []
    page: list[dcgm.Sample] = []
    seen: set[tuple[int, str, str]] = set()
    when: Moment | None = None
    clocks: set[Clock] = set()
    pages = 0

    def turn() -> None:
        nonlocal pages
        if page:
            clocks.add(_page(page, when, pages, rows))
            pages += 1
            page.clear()
            seen.clear()

    for line in lines:
        stamped = _stamp(line)
        if stamped is not None:
            turn()
            when = stamped
        for one in dcgm.samples(line):
            key = (one.gpu, one.uuid, one.field)
            if key in seen:
                turn()
            seen.add(key)
            page.append(one)
    turn()
    if not any("watts" in row.values or "joules" in row.values for row in rows):
        raise Unusable("shows no GPU's power: let the exporter collect DCGM_FI_DEV_POWER_USAGE.")
    if len(clocks) > 1:
        raise Unusable("has pages with a time and pages without: leave out those without.")
    instant = any(line.startswith(_INSTANT) for line in lines)
    counter = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"
    return Rows(rows, clocks.pop(), "as DCGM last collected them", counter, 0.0 if instant else MEAN_S)


def _page(page: list[dcgm.Sample], when: Moment | None, number: int, rows: list[Row]) -> Clock:
    gpus = sorted({(one.gpu, one.uuid) for one in page})
    models = {(one.gpu, one.uuid): one.model for one in page}
    said = max((one.at for one in page if one.at is not None), default=None)
    clock: Clock = "utc" if said is not None else when.clock if when else "none"
    at = said if said is not None else when.at if when else float(number)
    for reading in dcgm.readings(page, gpus, at):
        gpu, uuid = gpus[reading.device]
        values = {name: value for name in FIELDS if (value := getattr(reading, name)) is not None}
        rows.append(Row(at, gpu, values, uuid, models[gpu, uuid]))
    return clock


def _stamp(line: str) -> Moment | None:
    """The time on a line of its own."""
    text = line.strip()
    if not text or text.startswith(("# HELP", "# TYPE")) or "{" in text:
        return None
    words = text.lstrip("#= ").rstrip("= ").split()
    for count in (1, 2, 3):
        found = moment(" ".join(words[-count:])) if len(words) >= count else None
        if found is not None and found.clock in ("utc", "local"):
            return found
    return None
