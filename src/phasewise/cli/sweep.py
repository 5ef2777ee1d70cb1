"""`phasewise sweep`."""

from __future__ import annotations

from typing import Annotated

import typer

from phasewise.cli import flags
from phasewise.cli.stderr import say


def sweep(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="TARGET",
            help="A server's URL, or gguf:FILE; none: the embedded engine with its bundled model on this machine.",
        ),
    ] = None,
    model: flags.Model = None,
    on: flags.On = None,
    devices: flags.Devices = 1,
    weights: flags.Weights = None,
    kv: flags.Kv = None,
    peak: flags.Peak = None,
    bandwidth: flags.Bandwidth = None,
    budget: Annotated[
        str, typer.Option("--budget", metavar="TIME", help="Time to spend measuring, e.g. 60s or 300.")
    ] = "60s",
    max_batch: Annotated[
        int | None,
        typer.Option("--max-batch", min=1, max=4096, help="Most requests at once [default: 64; embedded engine: 8]."),
    ] = None,
    max_prompt: Annotated[
        int | None, typer.Option("--max-prompt", min=1, help="Longest prompt to send, tokens [default: 4096].")
    ] = None,
    max_tokens: Annotated[
        int, typer.Option("--max-tokens", min=1, help="Most tokens of all prompts and answers together.")
    ] = 2_000_000,
    itl: Annotated[
        str | None,
        typer.Option("--itl", metavar="TIME", help="Longest gap between tokens that you owe, e.g. 50ms."),
    ] = None,
    link: Annotated[
        str | None,
        typer.Option("--link", metavar="LINK", help="What would join prefill and decode machines: a name, or 50GB/s."),
    ] = None,
    prompt: flags.Prompt = 2000,
    answer: flags.AnswerTokens = 300,
    workers: flags.Workers = None,
    served_model: flags.ServedModel = None,
    insecure: flags.Insecure = False,
    timeout: flags.Timeout = 60.0,
    threads: flags.Threads = None,
    context: flags.Context = 2048,
    power: flags.Power = True,
    exporter: flags.Exporter = "",
    out: flags.Out = None,
    full: flags.Full = False,
    as_json: flags.Json = False,
) -> int:
    """Batch, context and the mix: how much batching buys and until where, and what a prompt costs running decodes.

    An API key is read from PHASEWISE_API_KEY or OPENAI_API_KEY.

    Example: phasewise sweep http://127.0.0.1:8000 --model llama-3-8b --on h100-sxm --itl 50ms
    """
    from phasewise.isolate.crew.on_ray import place
    from phasewise.jobs.subject import Subject
    from phasewise.jobs.sweep import Options
    from phasewise.jobs.sweep import sweep as job
    from phasewise.jobs.target import Connection
    from phasewise.record.run import RUNS
    from phasewise.report import show
    from phasewise.report.progress import bar, note

    options = Options(
        target=target,
        subject=Subject(model=model, on=on, devices=devices, weights=weights, kv=kv, peak=peak, bandwidth=bandwidth),
        connection=Connection(
            served_model=served_model, insecure=insecure, stall_s=timeout, threads=threads, context=context
        ),
        budget_s=flags.budget(budget),
        max_batch=max_batch,
        max_tokens=max_tokens,
        max_prompt=max_prompt,
        prompt=prompt,
        answer=answer,
        itl_s=flags.seconds(itl, "--itl") if itl else None,
        link=link,
        workers=place(workers) if workers is not None else None,
        power=power,
        exporter=exporter,
        out=out or RUNS,
    )
    with bar() as progress:
        done = job(options, progress, announce=lambda plan: note("Plan: " + " ".join(plan)))
    unsaved = show.swept(done.run, done.folder, done.unsaved, as_json=as_json, full=full)
    return done.exit_code if not unsaved else say(unsaved, done.exit_code or 3)
