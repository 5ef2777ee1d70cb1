"""A power sweep, from the answer down to the recap."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rich.console import Group, RenderableType
from rich.text import Text

from phasewise.record.power_sweep import PowerSweep
from phasewise.record.run import Run
from phasewise.report.terminal.layout import Grid, bullets, section, sentence
from phasewise.report.terminal.profiled import kept, notice
from phasewise.report.view import heading
from phasewise.report.view import power_sweep as view
from phasewise.report.view.sources import summary


def power_sweep(run: Run, folder: Path | None = None, *, full: bool = False) -> RenderableType:
    """The report of ``run``; ``folder`` is where it lies, when it does."""
    found = run.power_sweep or PowerSweep()
    return Group(
        sentence(view.headline(run), "bold"),
        sentence(heading.subject(run), "dim"),
        *(notice(one) for one in heading.notices(run)),
        *_caps(found),
        section("Time over the SM clock", Grid(view.slopes(found))),
        section("What it says", bullets(view.facts(found))),
        section("The cards", bullets(view.cards(found))),
        section("How every number was obtained", bullets([*view.method(found), *summary(run)]), *kept(folder, full)),
        section("Recap", Grid(view.recap(run))),
    )


def _caps(found: PowerSweep) -> Iterator[RenderableType]:
    if found.caps:
        for phase in heading.PHASES:
            yield section(f"{phase} under caps", Grid(view.caps(found, phase)), Text(""))
