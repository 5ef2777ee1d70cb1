"""`phasewise load`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from phasewise.cli import flags
from phasewise.cli.stderr import say
from phasewise.errors import UsageError

if TYPE_CHECKING:
    from phasewise.record.load import Limits


def load(
    target: Annotated[
        str | None, typer.Argument(metavar="TARGET", help="A server's URL, or gguf:FILE; none: the embedded engine.")
    ] = None,
    users: Annotated[
        int | None,
        typer.Option("--users", min=1, max=100_000, help="Closed loop: so many users, each waits for answers."),
    ] = None,
    rate: Annotated[
        float | None, typer.Option("--rate", help="Open loop: requests a second, sent whether answers come or not.")
    ] = None,
    arrivals: Annotated[
        Literal["constant", "poisson", "gamma", "burst", "ramp"] | None,
        typer.Option("--arrivals", help="How they come at that rate [default: poisson]."),
    ] = None,
    burstiness: Annotated[
        float | None, typer.Option("--burstiness", help="Gamma: 1 is Poisson, less comes in clumps, more is more even.")
    ] = None,
    burst: Annotated[int | None, typer.Option("--burst", min=1, help="So many at once, at --rate on average.")] = None,
    ramp_to: Annotated[
        float | None, typer.Option("--ramp-to", min=0, help="The rate at the end of --duration; --rate is its start.")
    ] = None,
    prompt: Annotated[
        str | None,
        typer.Option("--prompt", metavar="N|A..B|M~SD", help="Tokens in: fixed, uniform, or normal [default: 512]."),
    ] = None,
    answer: Annotated[
        str | None, typer.Option("--answer", metavar="N|A..B|M~SD", help="Tokens out, likewise [default: 128].")
    ] = None,
    mix: Annotated[
        str | None,
        typer.Option("--mix", metavar="IN:OUT:PART,...", help="Kinds of requests, 2000:300:0.7,100..500:50:0.3."),
    ] = None,
    replay: Annotated[
        Path | None,
        typer.Option(
            "--replay",
            metavar="FILE",
            help="Send a log again: Azure CSV, Mooncake JSON lines, BurstGPT CSV, ShareGPT JSON, or a CSV headed "
            "time,prompt_tokens,answer_tokens. At its own times, unless --rate or --users is given.",
        ),
    ] = None,
    begin: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="Replay from this time of the log on.")
    ] = None,
    part: Annotated[
        str | None, typer.Option("--for", metavar="TIME", help="Replay so much of the log, in its time.")
    ] = None,
    speed: Annotated[float, typer.Option("--speed", help="Replay so many times as fast.")] = 1.0,
    duration: Annotated[
        str | None,
        typer.Option(
            "--duration", metavar="TIME", help="Bound: send for so long [default: 60s; 600s with --find-rate]."
        ),
    ] = None,
    requests: Annotated[
        int, typer.Option("--requests", min=1, max=10_000_000, help="Bound: send no more requests.")
    ] = 10_000,
    tokens: Annotated[
        int, typer.Option("--tokens", min=1, help="Bound: ask for no more tokens, prompts and answers together.")
    ] = 10_000_000,
    ttft: Annotated[
        str | None, typer.Option("--ttft", metavar="TIME", help="Limit: first token within this of when it was due.")
    ] = None,
    tpot: Annotated[str | None, typer.Option("--tpot", metavar="TIME", help="Limit: time per token after it.")] = None,
    hold: Annotated[
        float | None,
        typer.Option(
            "--hold", min=0.5, max=0.999, help="Part of the requests that must meet the limits [default: 0.9]."
        ),
    ] = None,
    find_rate: Annotated[
        bool, typer.Option("--find-rate", help="Find the highest rate that holds the limits, from --rate on.")
    ] = False,
    warmup: Annotated[int, typer.Option("--warmup", min=0, max=1000, help="Requests before that no figure uses.")] = 4,
    drain: Annotated[
        str, typer.Option("--drain", metavar="TIME", help="How long the last may take before they are broken off.")
    ] = "60s",
    connections: Annotated[
        int, typer.Option("--connections", min=1, max=60_000, help="Open at once; more requests wait for one.")
    ] = 4096,
    workers: flags.Workers = None,
    seed: Annotated[
        int, typer.Option("--seed", min=0, help="Of arrivals and lengths; content is new in each run.")
    ] = 0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and stop: nothing is sent.")] = False,
    served_model: flags.ServedModel = None,
    insecure: flags.Insecure = False,
    timeout: flags.Timeout = 60.0,
    threads: flags.Threads = None,
    context: flags.Context = 4096,
    power: flags.Power = True,
    exporter: flags.Exporter = "",
    out: flags.Out = None,
    as_json: flags.Json = False,
) -> int:
    """Load: send requests as users do, or as a log did, and see which limit breaks first, TTFT or TPOT.

    The plan is printed before anything is sent. An API key is read from PHASEWISE_API_KEY or OPENAI_API_KEY.

    Examples: phasewise load http://127.0.0.1:8000 --users 8; phasewise load http://127.0.0.1:8000 --rate 2
    --ttft 500ms --tpot 50ms --find-rate; phasewise load http://127.0.0.1:8000 --replay azure.csv --speed 2
    """
    from phasewise.isolate.crew.on_ray import place
    from phasewise.isolate.workload.plan import Bounds
    from phasewise.jobs.load import Options, Prepared
    from phasewise.jobs.load import load as job
    from phasewise.jobs.target import Connection
    from phasewise.jobs.workload import Sending
    from phasewise.record.run import RUNS
    from phasewise.report import show
    from phasewise.report.progress import bar

    options = Options(
        target=target,
        sending=Sending(
            users=users,
            rate=rate,
            arrivals=arrivals,
            burstiness=burstiness,
            burst=burst,
            ramp_to=ramp_to,
            prompt=prompt,
            answer=answer,
            mix=mix,
            replay=replay,
            begin_s=0.0 if begin is None else flags.seconds(begin, "--from", zero=True),
            slice_s=None if part is None else flags.seconds(part, "--for"),
            speed=_speed(speed),
            bounds=Bounds(requests=requests, tokens=tokens, seconds=_duration(duration, find_rate)),
            seed=seed,
        ),
        limits=_limits(ttft, tpot, hold),
        find_rate=find_rate,
        warmup=warmup,
        drain_s=flags.seconds(drain, "--drain", zero=True),
        connections=connections,
        connection=Connection(
            served_model=served_model, insecure=insecure, stall_s=timeout, threads=threads, context=context
        ),
        workers=place(workers) if workers is not None else None,
        power=power,
        exporter=exporter,
        out=out or RUNS,
    )
    with bar() as progress:
        prepared = Prepared(options, progress)
    show.load_plan(prepared.words, dry=dry_run, as_json=as_json)
    if dry_run:
        return 0
    with bar() as progress:
        done = job(prepared, progress)
    unsaved = show.loaded(done.run, done.folder, done.unsaved, as_json=as_json, full=False)
    return done.exit_code if not unsaved else say(unsaved, done.exit_code or 3)


def _duration(given: str | None, find_rate: bool) -> float:
    if given is None:
        return 600.0 if find_rate else 60.0
    return flags.seconds(given, "--duration")


def _speed(speed: float) -> float:
    if not 1e-3 <= speed <= 1e6:
        raise UsageError(f"--speed {speed:g} is no speed: 2 sends a log twice as fast.")
    return speed


def _limits(ttft: str | None, tpot: str | None, part: float | None) -> Limits | None:
    from phasewise.isolate.workload.goodput import PART
    from phasewise.record.load import Limits

    if ttft is None and tpot is None:
        if part is not None:
            raise UsageError("--hold is the part of the requests that must meet limits: give --ttft, --tpot or both.")
        return None
    ttft_s = None if ttft is None else flags.seconds(ttft, "--ttft")
    tpot_s = None if tpot is None else flags.seconds(tpot, "--tpot")
    return Limits(ttft_s=ttft_s, tpot_s=tpot_s, part=PART if part is None else part)
