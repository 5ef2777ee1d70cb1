"""A grid before the user: CSV and chart into files, the rest on stdout."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

from phasewise.errors import InputError, UsageError
from phasewise.record.grid import Grid
from phasewise.report.stdout import document, write
from phasewise.report.view import words


def show(found: Grid, *, csv: Path | None, chart: Path | None, as_json: bool) -> None:
    """Write the CSV and the chart that were asked for, and print the grid unless the CSV itself goes to stdout.

    Raises:
        UsageError: a chart that is neither .svg nor .html, or --csv - beside --json.
        InputError: a file that cannot be written.
    """
    to_stdout = csv is not None and str(csv) == "-"
    if to_stdout and as_json:
        raise UsageError("--csv - and --json both write to stdout: give --csv a file.")
    if chart is not None:
        from phasewise.report.html import grid as drawing

        drawn = drawing.render(found, chart.suffix)
        _write(chart, lambda file: file.write(drawn), "--chart")
    if csv is not None:
        from phasewise.report import csv as table

        if to_stdout:
            text = io.StringIO()
            table.write(found, text)
            write(text.getvalue())
            return
        _write(csv, lambda file: table.write(found, file), "--csv")
    if as_json:
        from phasewise.report.json import grid as documents

        document(documents.points(found))
        return
    from phasewise.report.terminal import print_report
    from phasewise.report.terminal.grid import points

    print_report(points(found))
    for file in (csv, chart):
        if file is not None:
            write(f"Written: {words.clean(file)}\n")


def _write(path: Path, put: Callable[[TextIO], object], flag: str) -> None:
    try:
        with path.open("w", encoding="utf-8", newline="") as file:
            put(file)
    except OSError as error:
        raise InputError(f"{path} cannot be written ({error.strerror}): give {flag} another file.") from None
