"""A load run, for pasting into an issue; what it was over time is folded away, the recap closes it."""

from __future__ import annotations

from collections.abc import Iterator

from phasewise.record.run import Run
from phasewise.report.markdown import power
from phasewise.report.markdown.layout import folded, lines, notice, safe, table
from phasewise.report.view import load as view


def load(run: Run) -> str:
    """The report of a load run."""
    return "\n\n".join(block for block in _blocks(run) if block) + "\n"


def _blocks(run: Run) -> Iterator[str]:
    found = run.load
    assert found is not None
    yield f"**{safe(view.headline(found))}**"
    yield safe(view.subject(run))
    yield from map(notice, view.notices(run))
    if found.trials:
        yield "### Rates tried"
        yield table(view.trials(found))
    yield "### Percentiles"
    yield table(view.percentiles(found))
    yield lines(view.facts(found))
    yield "### Limits"
    yield table(view.goodput(found))
    yield folded("Over time", [table(view.moments(found))]) if found.moments else ""
    yield folded("Workers", [table(view.workers(found))]) if found.crew else ""
    yield from power.section(run)
    yield folded("The plan", [lines(view.plan(found.plan))])
    yield "### Recap"
    yield table(view.recap(found))
