"""docs/accelerators.md lists the catalogue."""

from __future__ import annotations

from pathlib import Path

from phasewise.hardware.catalogue import accelerators
from phasewise.hardware.rows import Accelerator
from phasewise.units import show

PAGE = Path(__file__).parents[2] / "docs" / "accelerators.md"


def line(row: Accelerator) -> str:
    """The row as the page shows it."""
    sixteen = row.peaks.get("bf16") or row.peaks.get("fp16")
    rates = (show(rate, "FLOP/s", 4) if rate else "" for rate in (sixteen, row.peaks.get("fp8")))
    memory, bandwidth = show(row.memory, "B", 4), show(row.bandwidth, "B/s", 4)
    return f"| {' | '.join((row.name, memory, bandwidth, *rates, row.confidence))} |".replace("|  |", "| |")


def test_every_row_is_on_the_page_as_it_is() -> None:
    table = PAGE.read_text().partition("| name |")[2].splitlines()[2:]
    assert table == [line(row) for row in accelerators()]
