"""`phasewise predict`."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from phasewise.cli import flags
from phasewise.cli import grid as grids
from phasewise.errors import UsageError

_MOST = 100_000


def predict(
    model: Annotated[
        str,
        typer.Argument(metavar="MODEL", help="Catalogue name, config.json, model directory or GGUF file."),
    ],
    on: flags.On = None,
    devices: flags.Devices = 1,
    tp: Annotated[
        int | None,
        typer.Option("--tp", min=1, max=_MOST, help="Devices that share every layer; without it, all of --devices."),
    ] = None,
    pp: Annotated[int, typer.Option("--pp", min=1, max=_MOST, help="Stages of consecutive layers.")] = 1,
    ep: Annotated[int, typer.Option("--ep", min=1, max=_MOST, help="Devices that experts are dealt out to.")] = 1,
    dp_attention: Annotated[
        int, typer.Option("--dp-attention", min=1, max=_MOST, help="Groups of --tp devices with requests of their own.")
    ] = 1,
    lm_head: Annotated[
        Literal["sharded", "replicated"],
        typer.Option("--lm-head", help="Whether each device holds its part of lm_head and embedding, or all."),
    ] = "sharded",
    link: Annotated[
        str | None,
        typer.Option("--link", metavar="LINK", help="What joins the devices: a link's name, or a rate: 450GB/s."),
    ] = None,
    weights: flags.Weights = None,
    kv: flags.Kv = None,
    image: Annotated[
        str | None,
        typer.Option(
            "--image", metavar="HxW", help="Pixels of an image in each prompt, whose tokens --prompt includes."
        ),
    ] = None,
    skew: Annotated[
        float,
        typer.Option("--skew", min=-1, max=20, help="How unevenly experts are chosen: 0 equally likely, -1 balanced."),
    ] = 0.0,
    peak: flags.Peak = None,
    bandwidth: flags.Bandwidth = None,
    prompt: flags.Prompt = 2000,
    answer: flags.AnswerTokens = 300,
    batch: Annotated[int, typer.Option("--batch", min=1, max=1_000_000, help="Requests in a decode step.")] = 1,
    grid: grids.Axis = None,
    csv: grids.Csv = None,
    chart: grids.Chart = None,
    what_if: Annotated[
        list[str] | None,
        typer.Option(
            "--what-if",
            metavar="CHANGE=VALUE,...",
            help="Changes to try, each alone and all together: weights=int4, kv=fp8, tp=2, pp=2, ep=8, dp-attention=8, "
            "link=64GB/s, batch=32, prefix-hit=0.8, draft=4:0.7, graphs=on, chunk=512, accelerator=h200-sxm.",
        ),
    ] = None,
    calibrated: Annotated[
        str | None,
        typer.Option("--calibrated", metavar="NAME", help="Also the time by this calibration, with an 80% interval."),
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Print every formula with its numbers put in.")] = False,
    as_json: flags.Json = False,
) -> int:
    """Napkin math first, then the counted model: the floor of prefill and decode on an accelerator.

    Example: phasewise predict llama-3-8b --on h100-sxm --what-if weights=int4,batch=32
    """
    from phasewise.jobs.predict import Over
    from phasewise.jobs.predict import predict as job
    from phasewise.jobs.subject import Subject
    from phasewise.report import show

    subject = Subject(
        model=model,
        on=on,
        devices=devices,
        weights=weights,
        kv=kv,
        peak=peak,
        bandwidth=bandwidth,
        image=image,
        skew=skew,
    )
    over = Over(tp=tp, pp=pp, ep=ep, dp_attention=dp_attention, lm_head=lm_head, link=link)
    if grids.wanted(on, grid, csv, chart):
        if what_if or calibrated or over != Over():
            raise UsageError(
                "a grid takes no --what-if, --calibrated, --tp, --pp, --ep, --dp-attention or --link: drop it."
            )
        return grids.draw(
            subject, grid, prompt=prompt, batch=batch, csv=csv, chart=chart, explain=explain, as_json=as_json
        )
    run = job(subject, prompt=prompt, answer=answer, batch=batch, over=over, changes=tuple(what_if or ()))
    if calibrated:
        from phasewise.jobs.calibrate import with_calibration

        run = with_calibration(run, calibrated, subject, over)
    show.predicted(run, as_json=as_json, explain=explain)
    return 0
