"""The page of a capture: its own section before those of its traces; alone where there are none."""

from __future__ import annotations

from typing import Any

from phasewise.record.run import Run
from phasewise.report.html import traced
from phasewise.report.html.frame import fill
from phasewise.report.json.capture import captured as document
from phasewise.report.view import capture as view


def render(run: Run) -> str:
    """The capture of ``run`` as one HTML file; its JSON document is inside.

    Raises:
        ValueError: the run holds no capture.
    """
    found = run.capture
    if found is None:
        raise ValueError("this run holds no capture")
    parts: dict[str, Any] = {
        "headline": view.headline(run, found),
        "subject": view.subject(run, found),
        "notices": view.notices(run, found),
        "captured": {
            "beside": view.beside(found),
            "unexplained": view.unexplained(found),
            "parts": list(view.parts(found)),
            "mix": view.mix(found),
            "checks": view.checks(found),
            "files": view.files(found),
        },
    }
    if run.traced is not None:
        return traced.render(run, document(run), parts)
    return fill("capture.html", document(run), {"run": run, **parts})
