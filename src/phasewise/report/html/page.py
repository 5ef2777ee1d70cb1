"""The page: views and drawings into the template."""

from __future__ import annotations

import base64
import hashlib
import json
from importlib import resources
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from phasewise import __version__
from phasewise.record.observation import Phase
from phasewise.record.run import Run
from phasewise.report import json as documents
from phasewise.report.html.growth import growth
from phasewise.report.html.roofline import basis_class, roofline, roofs
from phasewise.report.html.roofline import table as roofline_table
from phasewise.report.view import findings, heading, phases, predicted, request, words
from phasewise.report.view.recap import recap
from phasewise.report.view.sources import sources

if TYPE_CHECKING:
    from jinja2 import Environment


def render(run: Run) -> str:
    """``run`` as one HTML file: no other file, no network, no library; its JSON document is inside."""
    script = _asset("page.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        _environment()
        .get_template("page.html")
        .render(
            run=run,
            version=__version__,
            style=Markup(_asset("page.css")),
            script=Markup(script),
            script_hash=digest,
            data=_data(run),
            request=_request(run),
            phases=[_phase(run, phase) for phase in heading.PHASES],
            roofline=roofline(run),
            roofline_table=roofline_table(run),
            roofs=[(basis_class(r.basis), words.name(r.basis)) for r in roofs(run)],
            growths=[(phase, growth(run, phase), phases.points(run, phase)) for phase in heading.PHASES],
            prediction=_prediction(run),
            fix_groups=findings.groups(run),
            rejected=findings.rejected(run),
            note=findings.note(run),
            checks=findings.checks(run),
            tally=findings.tally(run),
            sources=sources(run),
            recap=recap(run),
            headline=heading.headline(run),
            subject=heading.subject(run),
            notices=heading.notices(run),
        )
    )


def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("phasewise.report.html"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(words=words, findings=findings, view_phases=phases, view_request=request)
    environment.filters.update(clean=words.clean, name=words.name, percent=_percent)
    return environment


def _asset(name: str) -> str:
    return resources.files("phasewise.report.html").joinpath("templates", name).read_text("utf-8")


def _percent(fraction: float) -> str:
    """A width for a style attribute: a number between 0 and 100, whatever came in."""
    return f"{100 * min(1.0, max(0.0, fraction)):.2f}%" if words.finite(fraction) else "0%"


def _data(run: Run) -> Markup:
    """The document as JSON that cannot end its script element or open a comment."""
    text = json.dumps(documents.profile(run), allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


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
        "facts": phases.facts(run, phase),
        "growth": phases.growth(run, phase),
    }
