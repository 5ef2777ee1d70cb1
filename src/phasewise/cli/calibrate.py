"""`phasewise calibrate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from phasewise.cli import flags
from phasewise.cli.stderr import say


def calibrate(
    sources: Annotated[
        list[Path],
        typer.Argument(metavar="RUN...", help="Folders of saved runs, or CSV files of points (see below)."),
    ],
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="Keep it by this name [default: MODEL-ACCELERATOR].")
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", metavar="MODEL", help="What was measured, where the runs do not say.")
    ] = None,
    on: flags.On = None,
    weights: flags.Weights = None,
    kv: flags.Kv = None,
    peak: flags.Peak = None,
    bandwidth: flags.Bandwidth = None,
    engine: Annotated[
        str, typer.Option("--engine", metavar="TEXT", help="What ran it, for the record, e.g. 'vLLM 0.24'.")
    ] = "",
    as_json: flags.Json = False,
) -> int:
    """Fit overhead and efficiencies to measured points of one model on one machine, for `predict --calibrated NAME`.

    A CSV names its columns in the first line: phase (prefill or decode), tokens (of each prompt; empty in decode),
    batch (requests in the step), context (cached tokens of each request before the step), seconds (TTFT, or time of
    the decode step), tp (devices that share the model).

    Examples: phasewise calibrate phasewise-runs/20261129T193000Z-embedded; phasewise calibrate points.csv --model
    llama-2-70b --on a100-sxm-80gb
    """
    from phasewise.jobs.calibrate import Options
    from phasewise.jobs.calibrate import calibrate as job
    from phasewise.jobs.subject import Subject

    subject = Subject(model=model, on=on, weights=weights, kv=kv, peak=peak, bandwidth=bandwidth)
    done = job(Options(sources=tuple(sources), subject=subject, name=name, engine=engine))
    if as_json:
        from phasewise.report.json.calibrated import calibration
        from phasewise.report.stdout import document

        document(calibration(done.calibration, done.file, done.why_not))
    else:
        from phasewise.report.terminal import print_report
        from phasewise.report.terminal.calibrated import calibration as table

        print_report(table(done.calibration, done.file, done.why_not))
    if not done.why_not:
        return 0
    cure = "make room there, or set XDG_CONFIG_HOME to a folder that can be written to, and calibrate again"
    return say(f"not kept in {done.file} ({done.why_not}), so no prediction can use it: {cure}.", 3)
