"""A power sweep, for pasting into an issue; the recap closes it."""

from __future__ import annotations

from collections.abc import Iterator

from phasewise.record.power_sweep import PowerSweep
from phasewise.record.run import Run
from phasewise.report.markdown.layout import folded, legend, lines, notice, safe, table, titled
from phasewise.report.view import heading
from phasewise.report.view import power_sweep as view
from phasewise.report.view.sources import sources


def power_sweep(run: Run) -> str:
    """The report of a run's power sweep."""
    return "\n\n".join(block for block in _blocks(run) if block) + "\n"


def _blocks(run: Run) -> Iterator[str]:
    found = run.power_sweep or PowerSweep()
    yield f"**{safe(view.headline(run))}**"
    yield safe(heading.subject(run))
    yield from map(notice, heading.notices(run))
    for phase in heading.PHASES if found.caps else ():
        yield f"### {view.caps(found, phase).title}"
        yield table(view.caps(found, phase))
    yield f"### {view.slopes(found).title}"
    yield table(view.slopes(found))
    yield lines(view.facts(found))
    yield "### The cards"
    yield lines(view.cards(found))
    yield folded("How every number was obtained", [lines(view.method(found)), legend(), *map(titled, sources(run))])
    yield "### Recap"
    yield table(view.recap(run))
