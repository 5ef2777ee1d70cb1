"""`phasewise profile`."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from phasewise.cli import flags
from phasewise.cli.stderr import say


def profile(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="TARGET",
            help="A server's URL, gguf:FILE or hf:DIR; none: the embedded engine with its bundled model, here.",
        ),
    ] = None,
    model: flags.Model = None,
    on: flags.On = None,
    devices: flags.Devices = 1,
    weights: flags.Weights = None,
    kv: flags.Kv = None,
    peak: flags.Peak = None,
    bandwidth: flags.Bandwidth = None,
    prompt: flags.Prompt = 2000,
    answer: flags.AnswerTokens = 300,
    mix: Annotated[
        str | None,
        typer.Option("--mix", metavar="IN:OUT:PART,...", help="Your mix of requests, e.g. 2000:300:0.7,500:50:0.3."),
    ] = None,
    phase: Annotated[
        Literal["both", "prefill", "decode"], typer.Option("--phase", help="Measure one phase only.")
    ] = "both",
    budget: Annotated[
        str, typer.Option("--budget", metavar="TIME", help="Time to spend measuring; it stops early when sure.")
    ] = "90s",
    lengths: Annotated[
        str | None, typer.Option("--lengths", metavar="N,N,...", help="Prompt lengths to measure, in tokens.")
    ] = None,
    max_prompt: Annotated[
        int | None, typer.Option("--max-prompt", min=1, help="Longest prompt to send, tokens.")
    ] = None,
    served_model: flags.ServedModel = None,
    insecure: flags.Insecure = False,
    timeout: flags.Timeout = 60.0,
    threads: flags.Threads = None,
    context: flags.Context = 4096,
    device: flags.Device = "auto",
    dtype: flags.Dtype = "auto",
    random_weights: flags.RandomWeights = False,
    power: flags.Power = True,
    exporter: flags.Exporter = "",
    out: flags.Out = None,
    full: flags.Full = False,
    as_json: flags.Json = False,
) -> int:
    """The main job: predict, measure each phase alone, judge, name the fix, and report.

    An API key is read from PHASEWISE_API_KEY or OPENAI_API_KEY.

    Examples: phasewise profile; phasewise profile http://127.0.0.1:8000 --model llama-3-8b --on h100-sxm
    """
    from phasewise.jobs.profile import Options
    from phasewise.jobs.profile import profile as job
    from phasewise.jobs.subject import Subject
    from phasewise.jobs.target import Connection
    from phasewise.record.run import RUNS
    from phasewise.report import show
    from phasewise.report.progress import bar

    options = Options(
        target=target,
        subject=Subject(model=model, on=on, devices=devices, weights=weights, kv=kv, peak=peak, bandwidth=bandwidth),
        asks=flags.asks(prompt, answer, mix),
        phases=("prefill", "decode") if phase == "both" else (phase,),
        budget_s=flags.budget(budget),
        lengths=flags.numbers(lengths),
        max_prompt=max_prompt,
        connection=Connection(
            served_model=served_model,
            insecure=insecure,
            stall_s=timeout,
            threads=threads,
            context=context,
            device=device,
            dtype=dtype,
            random_weights=random_weights,
        ),
        power=power,
        exporter=exporter,
        out=out or RUNS,
    )
    with bar() as progress:
        done = job(options, progress)
    unsaved = show.profiled(done.run, done.folder, done.unsaved, as_json=as_json, full=full)
    return done.exit_code if not unsaved else say(unsaved, done.exit_code or 3)
