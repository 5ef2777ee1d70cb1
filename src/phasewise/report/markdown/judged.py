"""Another tool's results, for pasting into an issue; the tool's words are folded away, the recap closes it."""

from __future__ import annotations

from collections.abc import Iterator

from phasewise.record.results import Results
from phasewise.record.run import Run
from phasewise.report.markdown.layout import bars, fixes, folded, legend, lines, notice, safe, table, titled
from phasewise.report.view import judged as view
from phasewise.report.view import words
from phasewise.report.view.heading import PHASES
from phasewise.report.view.sources import sources


def judged(run: Run) -> str:
    """The report of a run of `phasewise judge`."""
    assert run.results is not None
    return "\n\n".join(block for block in _blocks(run, run.results) if block) + "\n"


def _blocks(run: Run, found: Results) -> Iterator[str]:
    yield f"**{safe(words.clean(found.verdict.text))}**"
    yield safe(view.subject(run, found))
    yield from map(notice, view.notices(found))
    if parts := view.bars(found):
        yield "### Where the time goes"
        yield table(bars("part of the request", parts))
    for phase in PHASES:
        yield f"### {safe(view.title(found, phase).capitalize())}"
        verdict = view.phase(found, phase)
        if verdict is None:
            yield safe(view.why_not(found, phase))
            continue
        yield lines([*view.scored(found, phase), *map(words.clean, verdict.notes)])
        if shares := view.parts(verdict):
            yield table(bars("part of the step", shares))
    if len(found.rows) > 1:
        yield titled(view.rows(found))
    if found.scaling:
        yield titled(view.scaling(found))
    yield folded("The tool's words and ours", [lines(view.figures(found))])
    if checks := list(view.checks(found)):
        yield "### Checks"
        yield lines(checks)
    yield lines(view.notes(found))
    yield "### What to change first"
    yield from fixes(run)
    yield folded("How every number was obtained", [legend(), *(titled(one) for one in sources(run))])
    yield "### Recap"
    yield table(view.recap(run, found))
