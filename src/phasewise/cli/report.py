"""`phasewise report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from phasewise.cli import flags


def report(
    run: Annotated[
        Path | None, typer.Argument(metavar="RUN", help="Folder of a run, or its run.json; none: the latest here.")
    ] = None,
    form: Annotated[
        Literal["text", "html", "markdown", "json"], typer.Option("--as", help="In which form, on stdout.")
    ] = "text",
    full: flags.Full = False,
    as_json: flags.Json = False,
) -> int:
    """Show a saved run again: as terminal text, HTML, Markdown or JSON."""
    from phasewise.jobs.saved import find
    from phasewise.record.run import PAGE
    from phasewise.report import show

    saved, folder = find(run)
    whole = folder if (folder / PAGE).exists() else None  # a run that was killed has no page to point to
    show.again(saved, whole, "json" if as_json else form, full=full)
    return 0
