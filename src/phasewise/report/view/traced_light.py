"""Speed Of Light of a trace's phases: compute % and memory % of kernels with counters."""

from __future__ import annotations

from phasewise.record.quantity import reported
from phasewise.record.trace import Traced
from phasewise.report.view import words
from phasewise.report.view.table import Cell, Table, columns, give, say
from phasewise.report.view.traced import NOT_MEASURED, Pair, pairs, percent
from phasewise.units import Unit

_CLOCK = " Nsight Compute holds the SM clock at its base unless told --clock-control none: a run may be faster."


def lights(found: Traced) -> list[Table]:
    """Speed Of Light of each pair with counters; where there are none, the one table that says so."""
    tables = [speed_of_light(found, pair) for pair in pairs(found)]
    return [table for table in tables if table.rows] or tables[:1]


def speed_of_light(found: Traced, pair: Pair) -> Table:
    """Compute % and memory % by phase, weighted by kernel time, with NVIDIA's rule; what was not collected says so."""
    sides = [found.phases[phase].speed_of_light for phase in pair]

    def cells(name: str) -> tuple[Cell, ...]:
        return tuple(percent(getattr(side, name)) if side else say(NOT_MEASURED) for side in sides)

    def amounts(name: str, unit: Unit) -> tuple[Cell, ...]:
        values = [getattr(side, name) if side else None for side in sides]
        return tuple(say(NOT_MEASURED) if v is None else give(reported(v, unit, "counters")) for v in values)

    rows: tuple[tuple[Cell, ...], ...] = (
        (say("compute %"), *cells("compute")),
        (say("memory %"), *cells("memory")),
        (say("DRAM %"), *cells("dram")),
        (say("DRAM traffic"), *amounts("dram_bandwidth", "B/s")),
        (say("achieved occupancy"), *cells("occupancy")),
        (say("SM clock"), *amounts("sm_clock", "Hz")),
        (say("NVIDIA's rule"), *(say(side.rule if side else NOT_MEASURED) for side in sides)),
        (say("kernels counted"), *(Cell(words.count(side.kernels)) if side else say(NOT_MEASURED) for side in sides)),
    )
    note = (
        "Percent of the sustained peak. NVIDIA's rule: both under 60% is latency-bound, else the larger side."
        f"{_CLOCK if any(side and side.sm_clock for side in sides) else ''}"
        if any(sides)
        else f"{NOT_MEASURED.capitalize()}: no counters in this trace (Nsight Compute collects them)."
    )
    return Table(title="Speed Of Light", columns=columns("", *pair), rows=rows if any(sides) else (), note=note)
