"""Power per phase, for pasting into an issue."""

from __future__ import annotations

from collections.abc import Iterator

from phasewise.record.power import Power
from phasewise.record.run import Run
from phasewise.report.markdown.layout import folded, lines, notice, safe, table
from phasewise.report.view import power as view


def power(run: Run) -> str:
    """The report of a run's power."""
    return "\n\n".join(block for block in _blocks(run) if block) + "\n"


def section(run: Run) -> Iterator[str]:
    """Power as part of a profile; nothing where none was read."""
    if run.power is None or not run.power.phases:
        return
    yield "### Power"
    yield table(view.phases(run.power))
    yield from _batches(run.power)
    yield folded("How the power was measured", [lines(view.facts(run))])


def _blocks(run: Run) -> Iterator[str]:
    found = view.document(run)
    yield f"**{safe(view.headline(run))}**"
    yield safe(view.subject(run))
    yield from map(notice, view.notices(run))
    yield "### How it was measured"
    yield lines(view.facts(run))
    yield folded("Checks", [table(view.checks(found.checks))]) if found.checks else ""
    each = view.devices(found)
    yield folded("Each device", [table(each)]) if each.rows else ""
    yield "### Power per phase"
    yield table(view.phases(found))
    yield from _batches(found)


def _batches(found: Power) -> Iterator[str]:
    held = view.batches(found)
    if held.rows:
        yield f"#### {held.title}"
        yield table(held)
