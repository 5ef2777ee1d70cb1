"""Power per phase on the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rich.console import Group, RenderableType
from rich.text import Text

from phasewise.record.power import Recordings, Watched
from phasewise.record.run import PAGE, Run
from phasewise.report.terminal.layout import Grid, bullets, section, sentence
from phasewise.report.terminal.profiled import notice
from phasewise.report.view import power as view
from phasewise.report.view.findings import STATUS


def power(run: Run, saved: Path | None = None, *, full: bool = False) -> RenderableType:
    """The report of a run's power; ``saved`` is the folder that it lies in, when it does."""
    found = view.document(run)
    failed = tuple(check for check in found.checks if full or check.status != "passed")
    return Group(
        sentence(view.headline(run), "bold"),
        sentence(view.subject(run), "dim"),
        *(notice(one) for one in view.notices(run)),
        section("How it was measured", bullets(view.facts(run))),
        *([section("Checks", Grid(view.checks(failed)))] if failed else []),
        *([section("Saved", sentence(f"{saved}/run.json, {saved}/{PAGE}"))] if saved else []),
        section("Power per phase", *tables(run)),
    )


def tables(run: Run) -> Iterator[RenderableType]:
    """The figures, those by batch where batches were held, and those of each device where there are several."""
    found = view.document(run)
    yield Grid(view.phases(found))
    for each in (view.batches(found), view.devices(found)):
        if each.rows:
            yield Group(Text(""), Text(each.title, style="bold"), Grid(each))


def recordings(found: Recordings) -> RenderableType:
    """Telemetry files by themselves."""
    said = [sentence(f"{STATUS[check.status]}: {check.detail}", "bold") for check in found.checks]
    return Group(*said, section("Telemetry", Grid(view.recordings(found))))


def watched(found: Watched) -> RenderableType:
    """What can be read here, and what was."""
    return Group(section("Meters", Grid(view.meters(found))), section(view.now(found).title, Grid(view.now(found))))
