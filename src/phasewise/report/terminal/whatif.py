"""What changes would do, after a prediction."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from phasewise.record.run import Run
from phasewise.report.terminal.layout import Grid, bullets, section
from phasewise.report.view import whatif


def sections(run: Run) -> Iterator[RenderableType]:
    """The section, when there is anything to say."""
    if run.what_if is not None:
        yield section("What if", Grid(whatif.table(run.what_if)), Text(""), bullets(whatif.lines(run.what_if)))
