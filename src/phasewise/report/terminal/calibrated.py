"""A calibration, and what it says of a prediction."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rich.console import Group, RenderableType

from phasewise.record.calibration import Calibration
from phasewise.record.run import Run
from phasewise.report.terminal.layout import Grid, bullets, section, sentence
from phasewise.report.view import calibrated as view
from phasewise.report.view import words


def calibration(found: Calibration, file: Path, unkept: str) -> RenderableType:
    """The whole calibration, and how to use it, or why it is not kept."""
    use = f"Use it: phasewise predict ... --calibrated {words.name(found.name)}"
    kept = [f"Kept in {file}", use] if not unkept else [f"Not kept: {file} cannot be written ({unkept})."]
    return Group(
        sentence(view.headline(found), "bold"),
        section("Parameters", Grid(view.parameters(found))),
        section("Points", Grid(view.points(found))),
        *([section("What the points do not say", bullets(map(words.clean, found.notes)))] if found.notes else []),
        section("Kept", *map(sentence, kept)),
    )


def sections(run: Run) -> Iterator[RenderableType]:
    """Floor and calibrated time of each step of a prediction, with the interval; nothing without a calibration."""
    found = run.calibrated
    if found is None:
        return
    yield section(
        "Calibrated",
        sentence(f"By {words.name(found.name)}, {words.clean(found.about)}."),
        Grid(view.steps(found)),
        sentence(view.request(found)),
        *([bullets(map(words.clean, found.notes))] if found.notes else []),
    )
