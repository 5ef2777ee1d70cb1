"""`phasewise trace`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from phasewise.cli import flags
from phasewise.cli.stderr import say
from phasewise.errors import Interrupted


def trace(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FILE...",
            help="What a profiler wrote: PyTorch Kineto JSON, Nsight Systems or Compute, rocprofv3, rocpd; plain, gzip "
            "or zip. Several files, or a folder, are the ranks of one job.",
            show_default=False,
        ),
    ] = None,
    prefill: Annotated[
        list[Path] | None,
        typer.Option("--prefill", metavar="FILE", help="A trace of prefill alone, with --decode; may be repeated."),
    ] = None,
    decode: Annotated[
        list[Path] | None,
        typer.Option("--decode", metavar="FILE", help="A trace of decode alone, with --prefill; may be repeated."),
    ] = None,
    model: flags.Model = None,
    on: flags.On = None,
    devices: flags.Devices = 1,
    weights: flags.Weights = None,
    kv: flags.Kv = None,
    peak: flags.Peak = None,
    bandwidth: flags.Bandwidth = None,
    run: Annotated[
        Path | None,
        typer.Option("--run", metavar="RUN", help="Take model and accelerator from this run, where no flag says them."),
    ] = None,
    rules: Annotated[
        Path | None,
        typer.Option("--rules", metavar="FILE", help="CSV of your own kernel families: family,pattern,note."),
    ] = None,
    annotate: Annotated[
        Path | None,
        typer.Option("--annotate", metavar="OUT", help="Write the trace with its phases as bands, for Perfetto."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file of --annotate when it exists.")] = False,
    out: flags.Out = None,
    full: flags.Full = False,
    as_json: flags.Json = False,
) -> int:
    """Whose time it was and what it was bound on, phase by phase, from a profiler's trace.

    Examples: phasewise trace rank0.json.gz rank1.json.gz --model llama-3-8b --on h100-sxm;
    phasewise trace --prefill a.sqlite --decode b.sqlite
    """
    from phasewise.jobs.subject import Subject
    from phasewise.jobs.trace import Options, interrupted
    from phasewise.jobs.trace import trace as job
    from phasewise.record.run import RUNS
    from phasewise.report import show
    from phasewise.report.progress import bar

    options = Options(
        files=tuple(files or ()),
        prefill=tuple(prefill or ()),
        decode=tuple(decode or ()),
        subject=Subject(model=model, on=on, devices=devices, weights=weights, kv=kv, peak=peak, bandwidth=bandwidth),
        run=run,
        rules=rules,
        annotate=annotate,
        force=force,
        out=out or RUNS,
    )
    with bar() as progress:
        done = job(options, progress)
    try:
        unsaved = show.traced(done.run, done.folder, done.unsaved, as_json=as_json, full=full)
    except KeyboardInterrupt as stop:
        raise Interrupted(interrupted(done.folder, annotate), stop) from None
    return done.exit_code if not unsaved else say(unsaved, done.exit_code or 3)
