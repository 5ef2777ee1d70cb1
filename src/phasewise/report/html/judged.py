"""The page of another tool's results: both phases, its rows, its words beside ours, the fixes."""

from __future__ import annotations

from typing import Any

from phasewise.record.observation import Phase
from phasewise.record.results import Results
from phasewise.record.run import Run
from phasewise.report.html.frame import fill
from phasewise.report.json.judged import judged as document
from phasewise.report.view import judged as view
from phasewise.report.view import words
from phasewise.report.view.heading import PHASES
from phasewise.report.view.sources import sources


def render(run: Run) -> str:
    """``run`` as one HTML file that needs nothing else; its JSON document is inside."""
    found = run.results
    assert found is not None
    tables = (view.rows(found), view.scaling(found))
    parts = {
        "run": run,
        "headline": words.clean(found.verdict.text),
        "subject": view.subject(run, found),
        "notices": view.notices(found),
        "bars": view.bars(found),
        "phases": [_phase(found, phase) for phase in PHASES],
        "tables": [table for table in tables if len(table.rows) > 1],
        "figures": list(view.figures(found)),
        "checks": list(view.checks(found)),
        "notes": list(view.notes(found)),
        "sources": sources(run),
        "recap": view.recap(run, found),
    }
    return fill("judged.html", document(run), parts)


def _phase(found: Results, name: Phase) -> dict[str, Any]:
    verdict = view.phase(found, name)
    return {
        "name": name,
        "verdict": verdict,
        "why_not": view.why_not(found, name),
        "scored": list(view.scored(found, name)),
        "parts": view.parts(verdict) if verdict else (),
    }
