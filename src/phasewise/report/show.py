"""Put a finished job before the user, in the form that was asked for. The only writer on stdout."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal

import msgspec

from phasewise.record.logs import Logs
from phasewise.record.run import PAGE, Run

Form = Literal["text", "html", "markdown", "json"]


def predicted(run: Run, *, as_json: bool, explain: bool) -> None:
    """Print a prediction."""
    if as_json:
        from phasewise.report import json

        document(json.prediction(run))
        return
    from phasewise.report import terminal

    terminal.print_report(terminal.prediction(run, explain))


def profiled(run: Run, folder: Path, *, as_json: bool, full: bool) -> None:
    """Write the HTML report into the run's folder and print the run."""
    from phasewise.report import html

    (folder / PAGE).write_text(html.render(run), encoding="utf-8")
    again(run, folder, "json" if as_json else "text", full=full)


def again(run: Run, folder: Path, form: Form, *, full: bool = False) -> None:
    """Print a run in one of the four forms."""
    if form == "json":
        from phasewise.report import json

        document(json.profile(run))
    elif form == "text":
        from phasewise.report import terminal

        terminal.print_report(terminal.profile(run, folder, full=full))
    elif form == "html":
        from phasewise.report import html

        sys.stdout.write(html.render(run))
    else:
        from phasewise.report import markdown

        sys.stdout.write(markdown.profile(run))


def logs(run: Run, found: Logs, *, as_json: bool) -> None:
    """Print what request logs hold and what they cost."""
    if as_json:
        from phasewise.report.json.logs import logs as tree

        document(tree(run, found))
        return
    from phasewise.report import terminal
    from phasewise.report.terminal.logs import logs as text

    terminal.print_report(text(run, found))


def document(tree: dict[str, object]) -> None:
    """Print one JSON document."""
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(tree), indent=2).decode() + "\n")
    sys.stdout.flush()
