"""A request log: who owns the accelerator's time, its lengths, its files, the recap."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from phasewise.record.logs import Logs
from phasewise.record.run import Run
from phasewise.report.terminal.layout import Bars, Grid, bullets, section, sentence
from phasewise.report.view import logs as view


def logs(run: Run, found: Logs) -> RenderableType:
    """The whole report of a log."""
    return Group(
        sentence(view.owner(found), "bold"),
        sentence(view.subject(run, found), "dim"),
        section("Where the time goes", *_time(found)),
        section("Lengths", Grid(view.lengths(found)), Text(""), bullets(view.facts(found))),
        section("Files", Grid(view.files(found))),
        section("Next", sentence(view.next_step(found))),
        section("Recap", Grid(view.recap(found))),
    )


def _time(found: Logs) -> tuple[RenderableType, ...]:
    if not found.demands:
        return (sentence(view.owner(found)),)
    return Bars(view.bars(found)), Text(""), Grid(view.batches(found))
