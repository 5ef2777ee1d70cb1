"""A load run, from the verdict down to the recap; and its plan, before anything is sent."""

from __future__ import annotations

from pathlib import Path

from rich.console import Group, RenderableType
from rich.text import Text

from phasewise.record.load import Load, LoadPlan
from phasewise.record.run import PAGE, Run
from phasewise.report.terminal.layout import Grid, bullets, section, sentence
from phasewise.report.terminal.profiled import drawn, notice
from phasewise.report.view import load as view


def plan(found: LoadPlan, *, dry: bool) -> RenderableType:
    """What is going to be sent."""
    ending = [sentence("Nothing was sent (--dry-run).", "bold")] if dry else []
    return Group(section("The plan", bullets(view.plan(found))), *ending)


def load(run: Run, saved: Path | None = None) -> RenderableType:
    """The whole report; ``saved`` is the folder that the run lies in, when it does."""
    found = run.load
    assert found is not None
    target = run.target.name if run.target else "http://HOST:PORT"
    return Group(
        sentence(view.headline(found), "bold"),
        sentence(view.subject(run), "dim"),
        *(notice(one) for one in view.notices(run)),
        *([section("Rates tried", Grid(view.trials(found)))] if found.trials else []),
        section("Percentiles", *_percentiles(found)),
        section("Limits", Grid(view.goodput(found))),
        *([section("Over time", Grid(view.moments(found)))] if found.moments else []),
        *([section("Workers", Grid(view.workers(found)))] if found.crew else []),
        *drawn(run),
        section("Next", sentence(view.next_step(found, target))),
        *([section("Saved", sentence(f"{saved}/run.json, {saved}/{PAGE}"))] if saved else []),
        section("Recap", Grid(view.recap(found))),
    )


def _percentiles(found: Load) -> tuple[RenderableType, ...]:
    return Grid(view.percentiles(found)), Text(""), bullets(view.facts(found))
