"""`phasewise logs`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from phasewise.cli import flags


def logs(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE",
            help="Request logs, read as one: Azure CSV, Mooncake JSON lines, or a CSV headed "
            "time,prompt_tokens,answer_tokens; plain or gzip.",
            show_default=False,
        ),
    ],
    model: flags.Model = None,
    on: flags.On = None,
    devices: flags.Devices = 1,
    weights: flags.Weights = None,
    kv: flags.Kv = None,
    peak: flags.Peak = None,
    bandwidth: flags.Bandwidth = None,
    batch: Annotated[
        int, typer.Option("--batch", min=1, max=1_000_000, help="Requests that share a decode step.")
    ] = 32,
    as_json: flags.Json = False,
) -> int:
    """Where a fleet's accelerator time goes, prefill or decode, from a log of its requests.

    Example: phasewise logs requests.csv --model llama-2-70b --on h100-sxm --devices 8 --batch 32
    """
    from phasewise.jobs.logs import logs as job
    from phasewise.jobs.subject import Subject
    from phasewise.report import show
    from phasewise.report.progress import bar

    subject = Subject(model=model, on=on, devices=devices, weights=weights, kv=kv, peak=peak, bandwidth=bandwidth)
    with bar() as progress:
        done = job(files, subject, batch=batch, progress=progress)
    show.logs(done.run, done.logs, as_json=as_json)
    return 0
