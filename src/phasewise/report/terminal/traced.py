"""A trace: the answer, what is wrong with it, the two columns, who had the time, fixes, and the rest."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
from rich.console import Group, RenderableType
from rich.text import Text

from phasewise.record.run import Run
from phasewise.record.trace import Traced
from phasewise.report.terminal.layout import Bars, Grid, bullets, section, sentence
from phasewise.report.terminal.profiled import fixes, kept, notice
from phasewise.report.view import findings, words
from phasewise.report.view import traced as view
from phasewise.report.view import traced_kernels as kernels
from phasewise.report.view import traced_light as light
from phasewise.report.view import traced_phases as phases
from phasewise.report.view.heading import headline
from phasewise.report.view.table import Table
from phasewise.report.view.traced_recap import recap


def traced(run: Run, folder: Path | None = None, full: bool = False) -> RenderableType:
    """The report of a run's trace; with ``full`` every step, kernel and check.

    ``folder`` is where the run lies, when it does.
    """
    found = run.traced
    if found is None:
        return Group(sentence(headline(run), "bold"))
    return Group(
        sentence(view.headline(run, found), "bold"),
        sentence(view.subject(run, found), "dim"),
        *(notice(one) for one in view.notices(run, found)),
        section("Prefill beside decode", *_columns(found)),
        *_parts(found),
        section("Who had the time", *_families(found)),
        section("Speed Of Light", *_light(found, full)),
        section("What to change first", *fixes(run, full)),
        section("Steps", Grid(kernels.steps(found, None if full else kernels.STEPS)), *_lines(view.outside(found))),
        *_top(found, full),
        section("Files and devices", Grid(view.files(found)), Text(""), Grid(view.devices(found)), *kept(folder, full)),
        section(f"Health of the trace: {view.tally(found)}", *_health(found, full)),
        section("Recap", Grid(recap(run, found))),
    )


def _lines(*texts: str) -> Iterator[RenderableType]:
    yield from (sentence(text) for text in texts if text)


def _spaced(tables: list[Table]) -> Iterator[RenderableType]:
    """Tables with an empty line between them."""
    for at, table in enumerate(tables):
        yield from ([Text("")] if at else [])
        yield Grid(table)


def _columns(found: Traced) -> Iterator[RenderableType]:
    yield from _spaced([phases.side_by_side(found, pair) for pair in view.pairs(found)])
    yield Text("")
    yield sentence(view.busy(found))
    yield bullets(view.unmeasured(found))


def _parts(found: Traced) -> Iterator[RenderableType]:
    for phase, one in found.phases.items():
        told = phases.reasons(found, phase)
        if one.verdict is not None:
            yield section(phases.title(found, phase), Bars(phases.parts(found, phase)), *_lines(*told))


def _families(found: Traced) -> Iterator[RenderableType]:
    tables = [kernels.families(found, pair) for pair in view.pairs(found)]
    roles = [kernels.roles(found, pair) for pair in view.pairs(found)]
    yield from _spaced([*tables, *(table for table in roles if table.rows)])
    if not any(table.rows for table in roles):
        yield sentence("Places in the layer: they cannot be told here.")


def _light(found: Traced, full: bool) -> Iterator[RenderableType]:
    each = kernels.measured(found, None if full else kernels.STEPS)
    yield from _spaced([*light.lights(found), *([each] if each.rows else [])])


def _top(found: Traced, full: bool) -> Iterator[RenderableType]:
    for phase in found.phases:
        table = kernels.top(found, phase, None if full else kernels.KERNELS)
        if table.rows:
            yield section(table.title, Grid(table))


def _health(found: Traced, full: bool) -> Iterator[RenderableType]:
    """Every check when ``full``; else those that did not pass, and the names of the rest."""
    table = view.health(found)
    if full or not table.rows:
        yield Grid(table)
        return
    told = tuple(row for row in table.rows if row[0].text != findings.STATUS["passed"])
    yield Grid(msgspec.structs.replace(table, rows=told))
    if len(told) < len(table.rows):
        yield sentence(f"Passed: {words.clean(view.passed(found))}.")
