"""A grid as CSV: one row per point, SI numbers, units in docs/grids.md."""

from __future__ import annotations

import csv
from typing import TextIO

from phasewise.record.grid import Grid
from phasewise.report.view.grid import flat


def write(found: Grid, file: TextIO) -> None:
    """Write every point of ``found``; what is not known is an empty cell."""
    columns = flat(found)
    rows = csv.writer(file, lineterminator="\n")
    rows.writerow(columns)
    rows.writerows(zip(*(_cells(values) for values in columns.values()), strict=True))


def _cells(values: list[object]) -> list[object]:
    """Numbers to seven digits, whole ones without a point; true and false in JSON's words."""
    return [_cell(value) for value in values]


def _cell(value: object) -> object:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.7g}" if isinstance(value, float) else value
