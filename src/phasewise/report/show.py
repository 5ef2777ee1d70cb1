"""Put a finished job before the user, in the form that was asked for."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from phasewise.record.disk import whole
from phasewise.record.load import LoadPlan
from phasewise.record.logs import Logs
from phasewise.record.power import Recordings, Watched
from phasewise.record.power_sweep import Held
from phasewise.record.recipe import Recipe
from phasewise.record.run import PAGE, Run
from phasewise.report.stdout import document, write

Form = Literal["text", "html", "markdown", "json"]


def predicted(run: Run, *, as_json: bool, explain: bool) -> None:
    """Print a prediction."""
    if as_json:
        from phasewise.report import json

        document(json.prediction(run))
        return
    from phasewise.report import terminal

    terminal.print_report(terminal.prediction(run, explain))


def profiled(run: Run, folder: Path, unsaved: dict[str, str], *, as_json: bool, full: bool) -> str:
    """Write the HTML report into the run's folder and print the run.

    ``unsaved`` holds why a file could not be saved, by name. Returns a sentence on all that could not; empty when
    everything was saved.
    """
    page = _page(run)
    if "run.json" not in unsaved:
        try:
            with whole(folder / PAGE) as partial:
                partial.write_text(page, encoding="utf-8")
        except OSError as error:
            unsaved = {**unsaved, PAGE: error.strerror or str(error)}
    again(run, None if unsaved else folder, "json" if as_json else "text", full=full)
    why = ", ".join(f"{name} ({reason})" for name, reason in unsaved.items())
    rest = "what was measured is in the report on stdout: make room there or give --out another folder"
    return f"not saved in {folder}: {why}; {rest} before the next run." if why else ""


traced = loaded = swept = captured = judged = powered = power_swept = profiled
"""The same for `trace`, `load`, `sweep`, `capture`, `judge`, `power` and `power sweep`: their runs have forms of their
own, by `again` and `_page`."""


def load_plan(plan: LoadPlan, *, dry: bool, as_json: bool) -> None:
    """Print what a load run is going to send; where stdout is for the JSON of the run, on stderr."""
    from phasewise.report import terminal
    from phasewise.report.terminal.load import plan as text

    if not as_json:
        terminal.print_report(text(plan, dry=dry))
    elif dry:
        from phasewise.report.json.load import plan as tree

        document(tree(plan))
    elif sys.stderr is not None:
        sys.stderr.write(terminal.to_text(text(plan, dry=dry)))


def again(run: Run, folder: Path | None, form: Form, *, full: bool = False) -> None:
    """Print a run in one of the four forms. ``folder`` is where it lies, when it does."""
    if form == "html":
        write(_page(run))
    elif run.capture is not None:
        _captured(run, folder, form, full)
    elif run.traced is not None:
        _traced(run, folder, form, full)
    elif run.load is not None:
        _loaded(run, folder, form)
    elif run.sweep is not None:
        _swept(run, folder, form, full)
    elif run.results is not None:
        _judged(run, folder, form, full)
    elif run.power_sweep is not None:
        _power_swept(run, folder, form, full)
    elif run.envelope.command == "power":
        power(run, folder, form, full=full)
    elif form == "json":
        from phasewise.report import json

        document(json.profile(run))
    elif form == "text":
        from phasewise.report import terminal

        terminal.print_report(terminal.profile(run, folder, full=full))
    else:
        from phasewise.report import markdown

        write(markdown.profile(run))


def _traced(run: Run, folder: Path | None, form: Form, full: bool) -> None:
    if form == "json":
        from phasewise.report.json.traced import traced as tree

        document(tree(run))
    elif form == "text":
        from phasewise.report import terminal
        from phasewise.report.terminal.traced import traced as text

        terminal.print_report(text(run, folder, full))
    else:
        from phasewise.report.markdown.traced import traced as marked

        write(marked(run))


def _captured(run: Run, folder: Path | None, form: Form, full: bool) -> None:
    if form == "json":
        from phasewise.report.json.capture import captured as tree

        document(tree(run))
    elif form == "text":
        from phasewise.report import terminal
        from phasewise.report.terminal.capture import captured as text

        terminal.print_report(text(run, folder, full))
    else:
        from phasewise.report.markdown.capture import captured as marked

        write(marked(run))


def _loaded(run: Run, folder: Path | None, form: Form) -> None:
    if form == "json":
        from phasewise.report.json.load import load as tree

        document(tree(run))
    elif form == "text":
        from phasewise.report import terminal
        from phasewise.report.terminal.load import load as text

        terminal.print_report(text(run, folder))
    else:
        from phasewise.report.markdown.load import load as marked

        write(marked(run))


def _swept(run: Run, folder: Path | None, form: Form, full: bool) -> None:
    if form == "json":
        from phasewise.report.json.sweep import sweep as tree

        document(tree(run))
    elif form == "text":
        from phasewise.report import terminal
        from phasewise.report.terminal.sweep import sweep as text

        terminal.print_report(text(run, folder, full=full))
    else:
        from phasewise.report.markdown.sweep import sweep as marked

        write(marked(run))


def _judged(run: Run, folder: Path | None, form: Form, full: bool) -> None:
    if form == "json":
        from phasewise.report.json.judged import judged as tree

        document(tree(run))
    elif form == "text":
        from phasewise.report import terminal
        from phasewise.report.terminal.judged import judged as text

        terminal.print_report(text(run, folder, full=full))
    else:
        from phasewise.report.markdown.judged import judged as marked

        write(marked(run))


def power(run: Run, folder: Path | None, form: Form, *, full: bool = False) -> None:
    """Print the power of a run, whatever else it holds."""
    if form == "json":
        from phasewise.report.json.power import power as tree

        document(tree(run))
    elif form == "text":
        from phasewise.report import terminal
        from phasewise.report.terminal.power import power as text

        terminal.print_report(text(run, folder, full=full))
    else:
        from phasewise.report.markdown.power import power as marked

        write(marked(run))


def _power_swept(run: Run, folder: Path | None, form: Form, full: bool) -> None:
    if form == "json":
        from phasewise.report.json.power_sweep import power_sweep as tree

        document(tree(run))
    elif form == "text":
        from phasewise.report import terminal
        from phasewise.report.terminal.power_sweep import power_sweep as text

        terminal.print_report(text(run, folder, full=full))
    else:
        from phasewise.report.markdown.power_sweep import power_sweep as marked

        write(marked(run))


def restored(cards: Sequence[Held], *, as_json: bool) -> None:
    """Print which limits were put back."""
    if as_json:
        from phasewise.report.json.power_sweep import restored as tree

        document(tree(cards))
        return
    from phasewise.report.view.power_sweep import put_back

    write("".join(f"{sentence}\n" for sentence in put_back(cards)))


def recordings(found: Recordings, *, as_json: bool) -> None:
    """Print telemetry files that are joined to nothing."""
    if as_json:
        from phasewise.report.json.power import recordings as tree

        document(tree(found))
        return
    from phasewise.report import terminal
    from phasewise.report.terminal.power import recordings as text

    terminal.print_report(text(found))


def watched(found: Watched, *, as_json: bool) -> None:
    """Print what can be read on this machine, and what was."""
    if as_json:
        from phasewise.report.json.power import watched as tree

        document(tree(found))
        return
    from phasewise.report import terminal
    from phasewise.report.terminal.power import watched as text

    terminal.print_report(text(found))


def _page(run: Run) -> str:
    if run.power_sweep is not None:
        from phasewise.report.html import power_sweep as power_sweep_page

        return power_sweep_page.render(run)
    if run.envelope.command == "power":
        from phasewise.report.html import power as power_page

        return power_page.render(run)
    if run.load is not None:
        from phasewise.report.html import load as loaded_page

        return loaded_page.render(run)
    if run.capture is not None:
        from phasewise.report.html import capture as captured_page

        return captured_page.render(run)
    if run.traced is not None:
        from phasewise.report.html import traced as page

        return page.render(run)
    if run.sweep is not None:
        from phasewise.report.html import sweep as sweep_page

        return sweep_page.render(run)
    if run.results is not None:
        from phasewise.report.html import judged as judged_page

        return judged_page.render(run)
    from phasewise.report import html

    return html.render(run)


def logs(run: Run, found: Logs, *, as_json: bool) -> None:
    """Print what request logs hold and what they cost."""
    if as_json:
        from phasewise.report.json.logs import logs as tree

        document(tree(run, found))
        return
    from phasewise.report import terminal
    from phasewise.report.terminal.logs import logs as text

    terminal.print_report(text(run, found))


def recipe(found: Recipe, *, as_json: bool) -> None:
    """Print how to start an engine under a profiler."""
    if as_json:
        document(found)
        return
    from phasewise.report import terminal
    from phasewise.report.terminal.recipes import recipe as text

    terminal.print_report(text(found))
