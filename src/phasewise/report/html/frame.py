"""What every page is made with: the frame of head, headline and data, its style and script, and the environment."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from importlib import resources
from typing import TYPE_CHECKING

from markupsafe import Markup

from phasewise import __version__
from phasewise.report.view import findings, phases, request, words

if TYPE_CHECKING:
    from jinja2 import Environment


def fill(template: str, data: Mapping[str, object], parts: Mapping[str, object]) -> str:
    """``template`` with ``parts``: one HTML file that needs no other file, no network and no library.

    ``data`` is a JSON document; it lies inside, for programs.
    """
    script = _asset("page.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    frame = {
        "version": __version__,
        "style": Markup(_asset("page.css")),
        "script": Markup(script),
        "script_hash": digest,
        "data": _embedded(data),
    }
    return _environment().get_template(template).render({**frame, **parts})


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


def _embedded(document: Mapping[str, object]) -> Markup:
    """The document as JSON that cannot end its script element or open a comment."""
    text = json.dumps(document, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)
