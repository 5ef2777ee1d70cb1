"""Another tool's results: the answer, each phase, the rows, the tool's words, the fixes, the recap."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rich.console import Group, RenderableType

from phasewise.record.observation import Phase
from phasewise.record.results import Results
from phasewise.record.run import Run
from phasewise.report.terminal.layout import Bars, Grid, bullets, section, sentence
from phasewise.report.terminal.profiled import fixes, kept, notice
from phasewise.report.view import judged as view
from phasewise.report.view import words
from phasewise.report.view.heading import PHASES


def judged(run: Run, folder: Path | None = None, *, full: bool = False) -> RenderableType:
    """The whole report. ``folder`` is where the run lies, when it does."""
    found = run.results
    assert found is not None
    return Group(
        sentence(words.clean(found.verdict.text), "bold"),
        sentence(view.subject(run, found), "dim"),
        *(notice(one) for one in view.notices(found)),
        *_time(found),
        *(section(view.title(found, phase), *_phase(found, phase)) for phase in PHASES),
        *_rows(found),
        section("The tool's words and ours", bullets(view.figures(found))),
        *_more(found),
        section("What to change first", *fixes(run, full=full)),
        *kept(folder, full),
        section("Recap", Grid(view.recap(run, found))),
    )


def _time(found: Results) -> Iterator[RenderableType]:
    if bars := view.bars(found):
        yield section("Where the time goes", Bars(bars))


def _phase(found: Results, phase: Phase) -> Iterator[RenderableType]:
    verdict = view.phase(found, phase)
    if verdict is None:
        yield sentence(view.why_not(found, phase))
        return
    for line in view.scored(found, phase):
        yield sentence(line)
    yield Bars(view.parts(verdict))
    yield bullets(map(words.clean, verdict.notes))


def _rows(found: Results) -> Iterator[RenderableType]:
    if len(found.rows) > 1:
        yield section("Rows", Grid(view.rows(found)))
    if found.scaling:
        yield section("Decode over batch", Grid(view.scaling(found)))


def _more(found: Results) -> Iterator[RenderableType]:
    if checks := list(view.checks(found)):
        yield section("Checks", bullets(checks))
    if notes := list(view.notes(found)):
        yield section("Notes", bullets(notes))
