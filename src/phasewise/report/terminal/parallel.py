"""One model over several devices, after a prediction."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from phasewise.record.run import Run
from phasewise.report.terminal.layout import Grid, bullets, section, sentence
from phasewise.report.view import parallel


def sections(run: Run) -> Iterator[RenderableType]:
    """The sections, when there is anything to say."""
    found = run.parallel
    if found is None:
        return
    if found.devices > 1:
        tables = (Text(""), Grid(parallel.device(found)), Text(""), Grid(parallel.messages(found)))
        yield section("On each device", sentence(parallel.headline(found)), *tables, bullets(parallel.notes(found)))
        yield section("How many devices pay", Grid(parallel.advice(found)))
    else:
        yield section("How many devices pay", bullets(parallel.notes(found)), Grid(parallel.advice(found)))
