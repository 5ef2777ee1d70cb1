"""`phasewise predict`."""

from __future__ import annotations

from typing import Annotated

import typer

from phasewise.cli import flags
from phasewise.cli import grid as grids


def predict(
    model: Annotated[
        str,
        typer.Argument(metavar="MODEL", help="Catalogue name, config.json, model directory or GGUF file."),
    ],
    on: flags.On = None,
    devices: flags.Devices = 1,
    weights: flags.Weights = None,
    kv: flags.Kv = None,
    peak: flags.Peak = None,
    bandwidth: flags.Bandwidth = None,
    prompt: flags.Prompt = 2000,
    answer: flags.AnswerTokens = 300,
    batch: Annotated[int, typer.Option("--batch", min=1, max=1_000_000, help="Requests in a decode step.")] = 1,
    grid: grids.Axis = None,
    csv: grids.Csv = None,
    chart: grids.Chart = None,
    explain: Annotated[bool, typer.Option("--explain", help="Print every formula with its numbers put in.")] = False,
    as_json: flags.Json = False,
) -> int:
    """Napkin math first, then the counted model: the floor of prefill and decode on an accelerator.

    Example: phasewise predict llama-3-8b --on h100-sxm --explain
    """
    from phasewise.jobs.predict import predict as job
    from phasewise.jobs.subject import Subject
    from phasewise.report import show

    subject = Subject(model=model, on=on, devices=devices, weights=weights, kv=kv, peak=peak, bandwidth=bandwidth)
    if grids.wanted(on, grid, csv, chart):
        return grids.draw(
            subject, grid, prompt=prompt, batch=batch, csv=csv, chart=chart, explain=explain, as_json=as_json
        )
    run = job(subject, prompt=prompt, answer=answer, batch=batch)
    show.predicted(run, as_json=as_json, explain=explain)
    return 0
