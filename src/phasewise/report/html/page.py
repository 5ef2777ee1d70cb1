"""The page of a profile: views and drawings into the template."""

from __future__ import annotations

from typing import Any

from phasewise.record.observation import Phase
from phasewise.record.run import Run
from phasewise.report import json as documents
from phasewise.report.html import power
from phasewise.report.html.frame import fill
from phasewise.report.html.growth import growth
from phasewise.report.html.roofline import basis_class, roofline, roofs
from phasewise.report.html.roofline import table as roofline_table
from phasewise.report.view import beside, findings, heading, phases, predicted, request, words
from phasewise.report.view.recap import recap
from phasewise.report.view.sources import sources


def render(run: Run) -> str:
    """``run`` as one HTML file: no other file, no network, no library; its JSON document is inside."""
    parts = {
        "run": run,
        "request": _request(run),
        "phases": [_phase(run, phase) for phase in heading.PHASES],
        "roofline": roofline(run),
        "roofline_table": roofline_table(run),
        "roofs": [(basis_class(r.basis), words.name(r.basis)) for r in roofs(run)],
        "growths": [(phase, growth(run, phase), phases.points(run, phase)) for phase in heading.PHASES],
        "prediction": _prediction(run),
        "checks": findings.checks(run),
        "tally": findings.tally(run),
        "sources": sources(run),
        "recap": recap(run),
        "headline": heading.headline(run),
        "subject": heading.subject(run),
        "notices": heading.notices(run),
        "power": power.parts(run) if run.power and run.power.phases else None,
    }
    return fill("page.html", documents.profile(run), parts)


def _request(run: Run) -> dict[str, Any]:
    splits = run.judgement.splits if run.judgement else ()
    first = splits[0] if splits else None
    return {
        "split": first,
        "why": request.why_no_split(run),
        "parts": request.parts(first) if first else (),
        "mix": request.mix(run),
    }


def _prediction(run: Run) -> dict[str, Any] | None:
    found = run.prediction
    if found is None:
        return None
    return {
        "ceilings": predicted.ceilings(found),
        "napkin": predicted.napkin(run, found),
        "tables": (
            predicted.counted(found),
            predicted.landmarks(run, found),
            predicted.batches(found),
            predicted.lengths(found),
        ),
    }


def _phase(run: Run, phase: Phase) -> dict[str, Any]:
    return {
        "name": phase,
        "verdict": heading.verdict_of(run, phase),
        "measured": heading.measured(run, phase),
        "shares": request.shares(run, phase),
        "share_table": request.share_table(run, phase),
        "tables": [table for table in (phases.facts(run, phase), *beside.tables(run, phase)) if table.rows],
        "growth": phases.growth(run, phase),
    }
