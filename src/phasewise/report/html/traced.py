"""The page of a trace: both phases side by side with a step of each enlarged, families, timeline, fixes, health."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from phasewise.record.run import Run
from phasewise.record.trace import FamilyRow, Traced, TracePhase
from phasewise.report.html import timeline
from phasewise.report.html.frame import fill
from phasewise.report.json.traced import traced as document
from phasewise.report.view import traced as view
from phasewise.report.view import traced_kernels as kernels
from phasewise.report.view import traced_light as light
from phasewise.report.view import traced_phases as phases
from phasewise.report.view import words
from phasewise.report.view.sources import sources
from phasewise.report.view.traced_recap import recap

_ROWS = 100
"""Steps and kernels with counters that a page holds; --json has all."""

_BULK = ("steps", "timeline")


def render(run: Run, tree: dict[str, Any] | None = None, more: Mapping[str, Any] = {}) -> str:
    """The trace of ``run`` as one HTML file; its JSON document is inside, less its steps and bars.

    A capture gives a document of its own and ``more`` parts, which stand before the trace's.

    Raises:
        ValueError: the run holds no trace.
    """
    found = run.traced
    if found is None:
        raise ValueError("this run holds no trace")
    colours = kernels.colours(found)
    parts = {
        "run": run,
        "headline": view.headline(run, found),
        "subject": view.subject(run, found),
        "notices": view.notices(run, found),
        "pairs": [_pair(found, pair) for pair in view.pairs(found)],
        "busy": view.busy(found),
        "unmeasured": view.unmeasured(found),
        "legend": [(words.name(name), f"f{at}") for name, at in colours.items()],
        "overview": timeline.overview(found, colours),
        "timeline_note": words.clean(found.timeline_note or found.missing.get("timeline", "")),
        "lights": light.lights(found),
        "measured": kernels.measured(found, _ROWS),
        "steps": kernels.steps(found, _ROWS),
        "outside": view.outside(found),
        "top": [kernels.top(found, phase, None) for phase in found.phases],
        "tables": (view.files(found), view.devices(found)),
        "health": view.health(found),
        "tally": view.tally(found),
        "sources": sources(run),
        "recap": recap(run, found),
        "captured": None,
    }
    return fill("traced.html", _light(tree or document(run)), {**parts, **more})


def _light(tree: dict[str, Any]) -> dict[str, Any]:
    """The document without its longest lists and what stands beside them."""
    kept = {name: value for name, value in tree.items() if name not in _BULK}
    for beside in ("provenance", "reasons"):
        kept[beside] = {path: one for path, one in tree[beside].items() if path.split(".")[0] not in _BULK}
    return kept


def _pair(found: Traced, pair: view.Pair) -> dict[str, Any]:
    colours = kernels.colours(found)
    shown = {phase: one for phase in pair if (one := timeline.chosen(found, phase)) is not None}
    length = timeline.window([step for step, _ in shown.values()]) if shown else 0.0
    return {
        "phases": [
            {
                **_phase(found, phase),
                "picture": timeline.enlarged(*shown[phase], length, colours) if phase in shown else None,
                "pictured": shown[phase][0] if phase in shown else None,
            }
            for phase in pair
        ],
        "columns": phases.side_by_side(found, pair),
        "families": _families(found, pair),
        "tables": (kernels.families(found, pair), kernels.roles(found, pair)),
    }


def _phase(found: Traced, phase: TracePhase) -> dict[str, Any]:
    own = found.phases[phase]
    used = own.verdict.utilisations if own.verdict else ()
    return {
        "name": phase,
        "seen": view.seen(own),
        "bound": view.bound(own),
        "doubted": own.verdict is not None and own.verdict.alarm is not None,
        "used": used[0] if used else None,
        "against": phases.against(used[0]) if used else "",
        "parts": phases.parts(found, phase),
        "reasons": phases.reasons(found, phase),
    }


def _families(found: Traced, pair: view.Pair) -> list[dict[str, Any]]:
    """A row a family with a bar for each phase, the largest of both first."""
    sides: list[dict[str, FamilyRow]] = [{row.family: row for row in found.phases[phase].families} for phase in pair]
    return [
        {
            "name": words.name(name),
            "class": f"f{at}",
            "sides": [(phase, side.get(name)) for phase, side in zip(pair, sides, strict=True)],
        }
        for name, at in kernels.colours(found).items()
        if any(name in side for side in sides)
    ]
