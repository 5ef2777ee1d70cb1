"""An examination on the terminal: a line for each thing that was looked at, its cure under it, and what works."""

from __future__ import annotations

import rich.table
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from phasewise.record.doctor import Examination
from phasewise.report.terminal.layout import Grid, section, sentence
from phasewise.report.view import doctor as view

_COLOURS = {"ok": "green", "missing": "cyan", "blocked": "bold red"}
_STATUS, _WHAT = 8, 22
"""Columns of the status and of what was looked at."""


def doctor(examination: Examination) -> RenderableType:
    """The whole of it."""
    shown = [section(area, *(_line(line) for line in lines)) for area, lines in view.areas(examination)]
    return Group(
        Text("What can be measured on this machine, by this user", style="bold"),
        *shown,
        section("What works here", Grid(view.verbs(examination)), Text(""), sentence(view.summary(examination))),
    )


def _line(line: view.Line) -> RenderableType:
    row = rich.table.Table.grid(padding=(0, 1, 0, 0))
    row.add_column(width=_STATUS)
    row.add_column(width=_WHAT)
    row.add_column()
    row.add_row(Text(line.status, style=_COLOURS[line.status]), sentence(line.what), sentence(line.detail))
    return Group(row, *(Padding(Text(f"> {part}"), (0, 0, 0, 2)) for part in line.cure)) if line.cure else row
