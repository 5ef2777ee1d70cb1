"""`phasewise capture`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from phasewise.cli import flags
from phasewise.cli.stderr import say

if TYPE_CHECKING:
    from phasewise.jobs.subject import Subject
    from phasewise.record.recipe import EngineName, Profiler


def capture(
    target: Annotated[
        str | None,
        typer.Argument(metavar="TARGET", help="A server's URL (vLLM, SGLang), or hf:DIR.", show_default=False),
    ] = None,
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="COMMAND...", help="With --under: what to run, after a `--`.", show_default=False),
    ] = None,
    model: flags.Model = None,
    on: flags.On = None,
    devices: flags.Devices = 1,
    weights: flags.Weights = None,
    kv: flags.Kv = None,
    peak: flags.Peak = None,
    bandwidth: flags.Bandwidth = None,
    phase: Annotated[
        Literal["both", "prefill", "decode"], typer.Option("--phase", help="Capture one phase only.")
    ] = "both",
    prompt: Annotated[int, typer.Option("--prompt", min=1, max=10_000_000, help="Tokens of each prompt.")] = 512,
    requests: Annotated[int, typer.Option("--requests", min=1, max=100, help="Prompts that prefill records.")] = 3,
    steps: Annotated[int, typer.Option("--steps", min=2, max=400, help="Steps that decode records.")] = 8,
    batch: Annotated[
        int, typer.Option("--batch", min=1, max=4096, help="Requests that decode together, timed and recorded.")
    ] = 1,
    mix: Annotated[
        bool, typer.Option("--mix", help="Then a third trace: the same prompts coming into a running decode.")
    ] = False,
    under: Annotated[
        Literal["nsys", "ncu"] | None,
        typer.Option("--under", help="Run a command of your own under Nsight Systems or Compute, and read its report."),
    ] = None,
    printed: Annotated[
        Literal["nsys", "ncu", "torch"] | None,
        typer.Option("--print", help="Print how to start --engine under this profiler, and run nothing."),
    ] = None,
    engine: Annotated[
        Literal["vllm", "sglang", "trtllm", "llama.cpp", "own"] | None,
        typer.Option("--engine", help="The engine of --print; own: your own code."),
    ] = None,
    trace_dir: Annotated[
        Path | None,
        typer.Option("--trace-dir", metavar="DIR", help="Where the server's profiler writes, as seen from here."),
    ] = None,
    timeout: Annotated[
        float,
        typer.Option("--timeout", min=1, max=86400, help="Seconds that the profiler may take to stop and to write."),
    ] = 120.0,
    budget: Annotated[
        str, typer.Option("--budget", metavar="TIME", help="Time to time the phases without the profiler.")
    ] = "20s",
    served_model: flags.ServedModel = None,
    insecure: flags.Insecure = False,
    threads: flags.Threads = None,
    context: flags.Context = 4096,
    device: flags.Device = "auto",
    dtype: flags.Dtype = "auto",
    random_weights: flags.RandomWeights = False,
    out: flags.Out = None,
    full: flags.Full = False,
    as_json: flags.Json = False,
) -> int:
    """One trace per phase from a live engine, each phase alone, with the client's times beside it.

    Examples: phasewise capture http://127.0.0.1:8000 --model llama-3-8b --on h100-sxm; phasewise capture hf:./model;
    phasewise capture --under nsys -- python own.py
    """
    from phasewise.errors import UsageError

    if printed:
        if target or command or under:
            raise UsageError("--print runs nothing: leave out the TARGET, the command and --under.")
        return _printed(printed, engine, as_json=as_json)
    if engine:
        raise UsageError("--engine says what --print is for: give --print nsys, ncu or torch.")
    from phasewise.jobs.capture import Options
    from phasewise.jobs.capture import capture as job
    from phasewise.jobs.subject import Subject
    from phasewise.jobs.target import Connection
    from phasewise.record.run import RUNS
    from phasewise.report import show
    from phasewise.report.progress import bar

    subject = Subject(model=model, on=on, devices=devices, weights=weights, kv=kv, peak=peak, bandwidth=bandwidth)
    given = tuple(filter(None, (target, *(command or ()))))
    if command and not under:
        raise UsageError(f"{command[0]!r} is one argument too many: name one TARGET, or run a command with --under.")
    if under:
        return _launched(under, given, subject, out or RUNS, as_json=as_json, full=full)
    options = Options(
        target=target,
        subject=subject,
        phases=("prefill", "decode") if phase == "both" else (phase,),
        batch=batch,
        prompt=prompt,
        requests=requests,
        steps=steps,
        mix=mix,
        trace_dir=trace_dir,
        patience_s=timeout,
        budget_s=flags.budget(budget),
        connection=Connection(
            served_model=served_model,
            insecure=insecure,
            stall_s=max(60.0, timeout),
            threads=threads,
            context=context,
            device=device,
            dtype=dtype,
            random_weights=random_weights,
        ),
        out=out or RUNS,
    )
    with bar() as progress:
        done = job(options, progress)
    unsaved = show.captured(done.run, done.folder, done.unsaved, as_json=as_json, full=full)
    return done.exit_code if not unsaved else say(unsaved, done.exit_code or 3)


def _launched(
    tool: Literal["nsys", "ncu"], command: tuple[str, ...], subject: Subject, out: Path, *, as_json: bool, full: bool
) -> int:
    from phasewise.errors import UsageError
    from phasewise.jobs.launched import Options, launched
    from phasewise.report import show
    from phasewise.report.progress import bar

    if not command:
        raise UsageError(f"--under {tool} needs a command: phasewise capture --under {tool} -- python own.py")
    with bar() as progress:
        done = launched(Options(tool=tool, command=command, subject=subject, out=out), progress)
    unsaved = show.captured(done.run, done.folder, done.unsaved, as_json=as_json, full=full)
    return done.exit_code if not unsaved else say(unsaved, done.exit_code or 3)


def _printed(profiler: Profiler, engine: EngineName | None, *, as_json: bool) -> int:
    from phasewise.jobs.recipes import recipe
    from phasewise.report import show

    show.recipe(recipe(profiler, engine), as_json=as_json)
    return 0
