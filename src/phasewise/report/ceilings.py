"""A machine and its ceilings, as `phasewise ceilings` shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from phasewise.record.machine import Ceilings, Machine
from phasewise.record.quantity import Quantity
from phasewise.report.view import words
from phasewise.report.view.table import Cell, Table, columns, give, say

if TYPE_CHECKING:
    from rich.console import RenderableType


def show(machine: Machine, *, as_json: bool) -> None:
    """Print ``machine`` on stdout."""
    if as_json:
        from phasewise.report.stdout import document as put

        put(document(machine))
        return
    from phasewise.report.terminal import print_report

    print_report(_page(machine))


def text(machine: Machine) -> str:
    """``machine`` as plain text of at most 80 columns."""
    from phasewise.report.terminal import to_text

    return to_text(_page(machine))


def document(machine: Machine) -> dict[str, object]:
    """``machine`` as one JSON document: ``machine`` describes it, ``ceilings`` holds its rates by basis."""
    from phasewise.report import json

    described = {
        "name": machine.name,
        "kind": machine.kind,
        "memory_bytes": machine.memory_bytes,
        "power_limit_w": machine.power_limit_w,
        "notes": machine.notes,
    }
    by_basis = {
        found.basis: {
            "compute": found.compute,
            "bandwidth": found.bandwidth,
            "copy_bandwidth": found.copy_bandwidth,
            "how": found.how,
        }
        for found in machine.ceilings
    }
    return json.document({"machine": described, "ceilings": by_basis})


def table(machine: Machine) -> Table:
    """One row per rate, one column per basis, the spread of what was measured."""
    rows = []
    for label, rates in _rates(machine.ceilings):
        measured = rates.get("measured")
        spread = say(words.interval(measured)) if measured else Cell("")
        sheet = [give(rates["datasheet"]) if "datasheet" in rates else Cell("")] if _has_sheet(machine) else []
        rows.append((say(label), give(measured), spread, *sheet))
    heads = ("", ">measured", "spread", *([">datasheet"] if _has_sheet(machine) else []))
    return Table(title="Ceilings", columns=columns(*heads), rows=tuple(rows))


def _has_sheet(machine: Machine) -> bool:
    return any(found.basis == "datasheet" for found in machine.ceilings)


def _rates(ceilings: tuple[Ceilings, ...]) -> list[tuple[str, dict[str, Quantity]]]:
    """Each rate's label and its figure by basis, in the order in which the ceilings state them."""
    rates: dict[str, dict[str, Quantity]] = {}
    for found in ceilings:
        for dtype, peak in found.compute.items():
            rates.setdefault(f"{words.name(dtype)} matmuls", {})[found.basis] = peak
    for found in ceilings:
        for label, rate in (("reading memory", found.bandwidth), ("copying memory", found.copy_bandwidth)):
            if rate is not None:
                rates.setdefault(label, {})[found.basis] = rate
    return list(rates.items())


def _page(machine: Machine) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    from phasewise.report.terminal.layout import Grid, bullets, section

    memory = f", {words.amount(machine.memory_bytes)} of memory" if machine.memory_bytes else ""
    facts = [found.how for found in machine.ceilings if found.how]
    sources = [
        f"{label}: {words.origin(rates['measured'])}"
        for label, rates in _rates(machine.ceilings)
        if "measured" in rates
    ]
    lines = [words.clean(line) for line in (*machine.notes, *facts, *sources)]
    title = Text(f"{words.name(machine.name)} ({machine.kind}{memory})", style="bold")
    return Group(title, section("Ceilings of one device", Grid(table(machine))), section("How", bullets(lines)))
