"""A grid: a table for each combination of format and accelerator."""

from __future__ import annotations

from rich.console import Group, RenderableType

from phasewise.record.grid import Grid as Points
from phasewise.report.terminal.layout import Grid, bullets, section, sentence
from phasewise.report.view import grid


def points(found: Points) -> RenderableType:
    """The tables of ``found`` and what they leave out."""
    return Group(
        sentence(grid.heading(found), "bold"),
        *(section(table.title, Grid(table)) for table in grid.tables(found)),
        section("Notes", bullets(grid.notes(found))),
    )
