"""A profile, from the verdict down to the recap."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
from rich.console import Group, RenderableType
from rich.text import Text

from phasewise.record.observation import Phase
from phasewise.record.remedies import Remedy
from phasewise.record.run import PAGE, Run
from phasewise.report.terminal.layout import Bars, Grid, bullets, indented, section, sentence
from phasewise.report.view import beside, findings, heading, phases, power, request, words
from phasewise.report.view.heading import PHASES, Notice
from phasewise.report.view.recap import recap
from phasewise.report.view.sources import sources, summary

_TONES = {"alarm": "bold red", "doubt": "bold red", "partial": "bold yellow", "contradiction": "yellow"}


def profile(run: Run, saved: Path | None = None, *, full: bool = False) -> RenderableType:
    """The report of ``run``: what a person needs to act; with ``full`` every figure and its source.

    ``saved`` is the folder that the run lies in, when it does.
    """
    return Group(
        sentence(heading.headline(run), "bold"),
        sentence(heading.subject(run), "dim"),
        *(notice(one) for one in heading.notices(run)),
        section("Where the time goes", *_request(run)),
        *(section(_title(run, phase), *_phase(run, phase, full)) for phase in PHASES),
        section(f"Checks: {findings.tally(run)}", *checks(run, full)),
        section("What to change first", *fixes(run, full)),
        *drawn(run),
        section("How every number was obtained", *(_sources(run) if full else _summary(run)), *kept(saved, full)),
        section("Recap", Grid(recap(run))),
    )


def notice(one: Notice) -> RenderableType:
    """Something to know before the numbers, in the colour of its kind."""
    head = "STOP: " if one.kind == "alarm" else ""
    cause = [Text("Likely causes, likeliest first:")] if one.kind == "alarm" and one.items else []
    listed = indented(*cause, bullets(one.items, one.ordered))
    return Group(Text(""), sentence(head + one.text, _TONES[one.kind]), *([listed] if one.items else []))


def _request(run: Run) -> Iterator[RenderableType]:
    why = request.why_no_split(run)
    if why or run.judgement is None:
        yield sentence(why)
        return
    first = run.judgement.splits[0]
    yield sentence(request.alone(run, first))
    yield Bars(request.parts(first))
    mix = request.mix(run)
    if mix is not None:
        yield Group(Text(""), Grid(mix))


def drawn(run: Run) -> Iterator[RenderableType]:
    """Power as part of a report; nothing where none was read."""
    if run.power is not None and run.power.phases:
        held = power.batches(run.power)
        batches = (Text(""), Text(held.title, style="bold"), Grid(held)) if held.rows else ()
        facts = bullets((power.headline(run), *power.facts(run)))
        yield section("Power", Grid(power.phases(run.power)), *batches, facts)


def _title(run: Run, phase: Phase) -> str:
    verdict = heading.verdict_of(run, phase)
    if verdict is None:
        return phase if heading.measured(run, phase) else f"{phase}: not measured"
    doubt = "" if verdict.believed else " (not to be believed)"
    return f"{phase}: {words.bound(verdict.bound, verdict.rival)}{doubt}"


def _phase(run: Run, phase: Phase, full: bool) -> Iterator[RenderableType]:
    verdict = heading.verdict_of(run, phase)
    if verdict is not None:
        floor = f"floor {words.amount(verdict.floor)} (predicted)" if verdict.floor else "floor unknown"
        yield sentence(phases.scored(run, verdict))
        yield sentence(f"{phases.step(verdict)}: {words.amount(verdict.step)} (measured), {floor}")
        yield Bars(request.shares(run, phase))
    for line in phases.growth(run, phase):
        yield sentence(line)
    if verdict is not None:
        yield bullets(map(words.clean, verdict.notes))
    facts = phases.facts(run, phase)
    if not facts.rows:
        yield sentence(facts.note)
    elif full:
        yield Group(Text(""), Grid(facts))
    for table in (phases.points(run, phase), *beside.tables(run, phase)):
        if table.rows:
            yield Group(Text(""), Text(table.title, style="bold"), Grid(table))


def checks(run: Run, full: bool) -> Iterator[RenderableType]:
    """Every check with what it saw when ``full``; else those that did not pass, and the names of the rest."""
    table = findings.checks(run)
    if full or not table.rows:
        yield Grid(table)
        return
    told = tuple(row for row in table.rows if row[0].text != findings.STATUS["passed"])
    if told:
        yield Grid(msgspec.structs.replace(table, rows=told))
    if len(told) < len(table.rows):
        yield sentence(f"Passed: {findings.passed(run)}.")


def fixes(run: Run, full: bool) -> Iterator[RenderableType]:
    """What to change, the best first; what was not ranked and why; what would not help."""
    for rank, fix in enumerate(findings.fixes(run), 1):
        yield _fix(rank, fix, findings.whole(run), full)
    if note := findings.note(run):
        yield sentence(note)
    if useless := findings.rejected(run):
        yield Group(Text(""), Text("Would not help", style="bold"))
        yield bullets(f"{words.name(one.name)} ({one.phase}): {words.clean(one.reason)}" for one in useless)


def _fix(rank: int, fix: Remedy, of: str, full: bool) -> RenderableType:
    saves = findings.saves(fix, request.seconds(fix.saves), of)
    verify = [sentence(f"verify: {words.clean(fix.verify)}", "dim")] if full else []
    return Group(
        sentence(f"{rank}. {words.name(fix.name)} ({fix.phase}): {findings.BUYS[fix.buys]}", "bold"),
        indented(sentence(f"{saves}; {findings.gain(fix)}"), sentence(words.clean(fix.why)), *verify),
    )


def _summary(run: Run) -> Iterator[RenderableType]:
    yield bullets(summary(run))


def kept(folder: Path | None, full: bool) -> Iterator[RenderableType]:
    """Where a saved run lies and how to see it again; nothing when it was not saved."""
    if folder is None:
        return
    more = "" if full else " (--full: every figure with its interval and source)"
    yield Group(Text(""), sentence(f"HTML report: {words.clean(folder / PAGE)}"))
    yield sentence(f"Shown again by: phasewise report {words.clean(folder)}{more}")


def _sources(run: Run) -> Iterator[RenderableType]:
    yield bullets(f"{provenance}: {meaning}" for provenance, (_, meaning) in words.MARKS.items())
    for table in sources(run):
        yield Group(Text(""), Text(table.title, style="bold"), Grid(table))
