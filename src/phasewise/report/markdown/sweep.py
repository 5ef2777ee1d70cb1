"""A sweep, for pasting into an issue; every stall is folded away, the recap closes it."""

from __future__ import annotations

from collections.abc import Iterator

from phasewise.record.run import Run
from phasewise.report.markdown import power
from phasewise.report.markdown.layout import folded, legend, lines, notice, safe, table, titled
from phasewise.report.view import crew, findings, heading, sweep_tables
from phasewise.report.view import sweep as view
from phasewise.report.view.sources import sources


def sweep(run: Run) -> str:
    """The report of a run's sweep."""
    return "\n\n".join(block for block in _blocks(run) if block) + "\n"


def _blocks(run: Run) -> Iterator[str]:
    found = run.sweep
    yield f"**{safe(view.headline(run))}**"
    yield safe(heading.subject(run))
    yield from map(notice, view.notices(run))
    if found is not None:
        yield "### Decode over batch and context"
        yield table(sweep_tables.surface(found))
        yield lines(view.decode_facts(found))
        yield f"### {sweep_tables.at_once(found).title}"
        yield table(sweep_tables.at_once(found))
        yield "### The mix"
        yield table(sweep_tables.matrix(found))
        yield lines(view.mix_facts(found))
        yield folded("Each prompt among decodes", [table(sweep_tables.stalls(found))])
        yield lines(view.advice(one) for one in found.advice)
    if found is not None and found.crew is not None:
        yield lines(crew.facts(found.crew))
        yield folded("Workers", [table(crew.table(found.crew))])
    yield from power.section(run)
    yield f"### Checks: {findings.tally(run)}"
    yield table(findings.checks(run))
    yield folded("How every number was obtained", [legend(), *(titled(one) for one in sources(run))])
    yield "### Recap"
    yield table(sweep_tables.recap(run))
