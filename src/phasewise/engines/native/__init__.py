"""Servers that have an API of their own beside the OpenAI-compatible one: a file each, and the table of them.

A file says how a request is written and how an event reads (`dialect.Wire`); the blocking client and the loop both go
by it. It is preferred, as it tells more; a URL that ends in ``/v1`` asks for the OpenAI-compatible one.
"""

from __future__ import annotations

from phasewise.engines.dialect import Form
from phasewise.engines.native import ollama, tgi

FORMS: dict[str, tuple[Form, ...]] = {"Ollama": ollama.FORMS, "TGI": tgi.FORMS}
"""By engine, the forms to try before the OpenAI-compatible ones, the best first; their model is still to be put in."""
