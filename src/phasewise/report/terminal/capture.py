"""A capture: both times side by side and what each step is made of, then the report of its traces."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rich.console import Group, RenderableType
from rich.text import Text

from phasewise.record.run import Run
from phasewise.report.terminal.layout import Grid, section, sentence
from phasewise.report.terminal.profiled import kept, notice
from phasewise.report.terminal.traced import traced
from phasewise.report.view import capture as view
from phasewise.report.view.heading import headline


def captured(run: Run, folder: Path | None = None, full: bool = False) -> RenderableType:
    """The report of a capture; ``folder`` is where the run lies, when it does."""
    found = run.capture
    if found is None:
        return Group(sentence(headline(run), "bold"))
    return Group(
        sentence(view.headline(run, found), "bold"),
        sentence(view.subject(run, found), "dim"),
        *(notice(one) for one in view.notices(run, found)),
        section("Client beside trace", Grid(view.beside(found)), *(sentence(one) for one in view.unexplained(found))),
        *(section(table.title, Grid(table)) for table in view.parts(found)),
        *([section(view.mix(found).title, Grid(view.mix(found)))] if view.mix(found).rows else []),
        section("Are they clean", Grid(view.checks(found))),
        section("Captured files", Grid(view.files(found)), *([] if run.traced else kept(folder, full))),
        *_traced(run, folder, full),
    )


def _traced(run: Run, folder: Path | None, full: bool) -> Iterator[RenderableType]:
    if run.traced is not None:
        yield Text("")
        yield traced(run, folder, full)
