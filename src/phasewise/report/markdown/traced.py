"""A trace, for pasting into an issue; steps, kernels and files are folded away, the recap closes it."""

from __future__ import annotations

from collections.abc import Iterator

from phasewise.record.run import Run
from phasewise.record.trace import Traced
from phasewise.report.markdown.layout import bars, fixes, folded, legend, lines, notice, safe, table, titled
from phasewise.report.view import traced as view
from phasewise.report.view import traced_kernels as kernels
from phasewise.report.view import traced_light as light
from phasewise.report.view import traced_phases as phases
from phasewise.report.view.heading import headline
from phasewise.report.view.sources import sources
from phasewise.report.view.traced_recap import recap

_STEPS = 100
"""Steps that a pasted report holds; --json has all."""


def traced(run: Run) -> str:
    """The report of a run's trace."""
    blocks = [f"**{safe(headline(run))}**"] if run.traced is None else _blocks(run, run.traced)
    return "\n\n".join(block for block in blocks if block) + "\n"


def _blocks(run: Run, found: Traced) -> Iterator[str]:
    yield f"**{safe(view.headline(run, found))}**"
    yield safe(view.subject(run, found))
    yield from map(notice, view.notices(run, found))
    yield "### Prefill beside decode"
    yield from (table(phases.side_by_side(found, pair)) for pair in view.pairs(found))
    yield safe(view.busy(found))
    yield lines(view.unmeasured(found))
    yield from _parts(found)
    yield "### Who had the time"
    yield from (table(kernels.families(found, pair)) for pair in view.pairs(found))
    roles = [table(kernels.roles(found, pair)) for pair in view.pairs(found) if kernels.roles(found, pair).rows]
    yield folded("By place in the layer", roles) if roles else ""
    yield "### Speed Of Light"
    yield from map(table, light.lights(found))
    yield "### What to change first"
    yield from fixes(run)
    yield folded("Steps and kernels", list(_bulk(found)))
    yield folded("Files and devices", [titled(view.files(found)), titled(view.devices(found))])
    yield f"### Health of the trace: {view.tally(found)}"
    yield table(view.health(found))
    yield folded("How every number was obtained", [legend(), *(titled(one) for one in sources(run))])
    yield "### Recap"
    yield table(recap(run, found))


def _parts(found: Traced) -> Iterator[str]:
    for phase, one in found.phases.items():
        if one.verdict is not None:
            yield f"### {safe(phases.title(found, phase).capitalize())}"
            if parts := phases.parts(found, phase):
                yield table(bars("part of the step", parts))
            yield lines(phases.reasons(found, phase))


def _bulk(found: Traced) -> Iterator[str]:
    yield titled(kernels.steps(found, _STEPS))
    yield safe(view.outside(found))
    measured = kernels.measured(found, _STEPS)
    tables = [*(kernels.top(found, phase, None) for phase in found.phases), measured]
    yield from (titled(one) for one in tables if one.rows)
