"""A capture, for pasting into an issue; the report of its traces follows."""

from __future__ import annotations

from collections.abc import Iterator

from phasewise.record.capture import Capture
from phasewise.record.run import Run
from phasewise.report.markdown.layout import folded, lines, notice, safe, table, titled
from phasewise.report.markdown.traced import traced
from phasewise.report.view import capture as view
from phasewise.report.view.heading import headline


def captured(run: Run) -> str:
    """The report of a capture."""
    blocks = [f"**{safe(headline(run))}**"] if run.capture is None else list(_blocks(run, run.capture))
    own = "\n\n".join(block for block in blocks if block) + "\n"
    return own if run.traced is None else f"{own}\n## The traces\n\n{traced(run)}"


def _blocks(run: Run, found: Capture) -> Iterator[str]:
    yield f"**{safe(view.headline(run, found))}**"
    yield safe(view.subject(run, found))
    yield from map(notice, view.notices(run, found))
    yield "### Client beside trace"
    yield table(view.beside(found))
    yield lines(view.unexplained(found))
    yield from map(titled, view.parts(found))
    if view.mix(found).rows:
        yield folded(view.mix(found).title, [table(view.mix(found))])
    yield "### Are they clean"
    yield table(view.checks(found))
    yield folded("Files", [table(view.files(found))])
