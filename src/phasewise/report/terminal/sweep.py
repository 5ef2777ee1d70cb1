"""A sweep, from the answer down to the recap."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rich.console import Group, RenderableType
from rich.text import Text

from phasewise.record.run import Run
from phasewise.record.sweep import Swept
from phasewise.report.terminal.layout import Grid, bullets, indented, section, sentence
from phasewise.report.terminal.profiled import checks, drawn, kept, notice
from phasewise.report.view import crew, findings, heading, sweep_tables, words
from phasewise.report.view import sweep as view
from phasewise.report.view.sources import summary


def sweep(run: Run, folder: Path | None = None, *, full: bool = False) -> RenderableType:
    """The report of ``run``; with ``full`` every figure. ``folder`` is where the run lies, when it does."""
    found = run.sweep
    return Group(
        sentence(view.headline(run), "bold"),
        sentence(heading.subject(run), "dim"),
        *(notice(one) for one in view.notices(run)),
        *(_parts(found, full) if found else ()),
        *drawn(run),
        section(f"Checks: {findings.tally(run)}", *checks(run, full)),
        section("How every number was obtained", bullets([*_plan(found), *summary(run)]), *kept(folder, full)),
        section("Recap", Grid(sweep_tables.recap(run))),
    )


def _plan(found: Swept | None) -> tuple[str, ...]:
    return tuple(map(words.clean, found.plan)) if found else ()


def _parts(found: Swept, full: bool) -> Iterator[RenderableType]:
    yield section(
        "Decode: what batch and context do",
        Grid(sweep_tables.surface(found)),
        Text(""),
        bullets(view.decode_facts(found)),
    )
    yield section("Prefill: prompts at once", Grid(sweep_tables.at_once(found)))
    each: list[RenderableType] = [Text(""), Grid(sweep_tables.stalls(found))] if full else []
    yield section(
        "The mix: what a prompt costs the others",
        Grid(sweep_tables.matrix(found)),
        *each,
        Text(""),
        bullets(view.mix_facts(found)),
    )
    if found.advice:
        yield section("What follows", *_advice(found))
    if found.crew is not None:
        yield section("Workers", Grid(crew.table(found.crew)), Text(""), bullets(crew.facts(found.crew)))


def _advice(found: Swept) -> Iterator[RenderableType]:
    for one in found.advice:
        yield sentence(view.advice(one), "bold")
        yield indented(
            bullets(map(words.clean, one.arithmetic)), sentence(f"Assumed: {words.clean('; '.join(one.assumes))}.")
        )
