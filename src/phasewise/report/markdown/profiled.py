"""A profile, for pasting into an issue; what it took is folded away, the recap closes it."""

from __future__ import annotations

from collections.abc import Iterator

from phasewise.record.observation import Phase
from phasewise.record.run import Run
from phasewise.report.markdown import power
from phasewise.report.markdown.layout import bars, fixes, folded, legend, lines, notice, safe, table, titled
from phasewise.report.view import beside, findings, heading, phases, request, words
from phasewise.report.view.heading import PHASES
from phasewise.report.view.recap import recap
from phasewise.report.view.sources import sources


def profile(run: Run) -> str:
    """The report of ``run``; what it took is folded away, the recap closes it."""
    return "\n\n".join(block for block in _blocks(run) if block) + "\n"


def _blocks(run: Run) -> Iterator[str]:
    yield f"**{safe(heading.headline(run))}**"
    yield safe(heading.subject(run))
    yield from map(notice, heading.notices(run))
    yield "### Where the time goes"
    yield from _request(run)
    for phase in PHASES:
        yield from _phase(run, phase)
    yield f"### Checks: {findings.tally(run)}"
    yield table(findings.checks(run))
    yield "### What to change first"
    yield from fixes(run)
    yield from power.section(run)
    yield folded("How every number was obtained", [legend(), *(titled(table) for table in sources(run))])
    yield "### Recap"
    yield table(recap(run))


def _request(run: Run) -> Iterator[str]:
    why = request.why_no_split(run)
    if why or run.judgement is None:
        yield safe(why)
        return
    first = run.judgement.splits[0]
    yield safe(request.alone(run, first))
    yield table(bars("part", request.parts(first)))
    mix = request.mix(run)
    if mix is not None:
        yield table(mix)


def _phase(run: Run, phase: Phase) -> Iterator[str]:
    verdict = heading.verdict_of(run, phase)
    bound = f": {words.bound(verdict.bound, verdict.rival)}" if verdict else ""
    yield f"### {phase.capitalize()}{bound}"
    if verdict is not None:
        time, floor = words.amount(verdict.step), words.amount(verdict.floor)
        yield safe(phases.scored(run, verdict))
        yield safe(f"{phases.step(verdict)}: {time} (measured), floor {floor} (predicted).")
        if verdict.shares:
            yield table(bars("part of the step", request.shares(run, phase)))
        yield lines(map(words.clean, verdict.notes))
    yield lines(phases.growth(run, phase))
    points = phases.points(run, phase)
    yield folded(points.title, [table(points)]) if points.rows else safe(points.note)
    for one in (phases.facts(run, phase), *beside.tables(run, phase)):
        if one.rows:
            yield folded(one.title, [table(one)])
