"""`phasewise power sweep` and `phasewise power restore`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from phasewise.cli import flags
from phasewise.cli.stderr import say
from phasewise.errors import InputError, UsageError


def sweep(
    target: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TARGET|RUN...",
            help="A server's URL on this machine, or hf:DIR; or runs that were made with telemetry beside them.",
            show_default=False,
        ),
    ] = None,
    set_limits: Annotated[
        bool,
        typer.Option("--set-limits", help="Change power limits, and put them back. Without it none is ever changed."),
    ] = False,
    gpus: Annotated[
        str | None, typer.Option("--gpus", metavar="LIST", help="Cards of the server: 0,1 or UUIDs, or all.")
    ] = None,
    caps: Annotated[
        str | None,
        typer.Option("--caps", metavar="LIST", help="Caps instead of --steps, e.g. 700W,500W,350W."),
    ] = None,
    steps: Annotated[
        int, typer.Option("--steps", min=2, max=100, help="Caps, from the limit found to the least that is allowed.")
    ] = 5,
    budget: Annotated[
        str, typer.Option("--budget", metavar="TIME", help="Time to spend measuring, all caps together.")
    ] = "120s",
    settle: Annotated[str, typer.Option("--settle", metavar="TIME", help="Time to wait after a limit was set.")] = "1s",
    prompt: Annotated[int, typer.Option("--prompt", min=1, help="Tokens of the prompt whose TTFT is measured.")] = 2048,
    served_model: flags.ServedModel = None,
    insecure: flags.Insecure = False,
    timeout: flags.Timeout = 60.0,
    threads: flags.Threads = None,
    context: flags.Context = 4096,
    out: flags.Out = None,
    full: flags.Full = False,
    as_json: flags.Json = False,
) -> int:
    """What a power cap does to each phase (--set-limits), or how each follows the clock as it is.

    A process of its own holds the limits it found and puts them back however this ends, kill -9 included.

    Example: sudo phasewise power sweep http://127.0.0.1:8000 --set-limits --gpus 0
    """
    from phasewise.jobs.power_sweep import Options, of_runs, power_sweep
    from phasewise.jobs.target import Connection
    from phasewise.record.run import RUNS
    from phasewise.report import show
    from phasewise.report.progress import bar

    runs = _runs(target or [])
    if runs and set_limits:
        raise UsageError("--set-limits needs a running engine: name its URL instead of a run.")
    if not target:
        raise UsageError("name what to measure: http://127.0.0.1:8000, hf:DIR, or a run with telemetry beside it.")
    put_back()
    if runs:
        made = of_runs(runs, out or RUNS)
        unsaved = show.power_swept(made.run, made.folder, made.unsaved, as_json=as_json, full=full)
        return 0 if not unsaved else say(unsaved, 3)
    options = Options(
        target=target[0],
        set_limits=set_limits,
        gpus=gpus,
        caps=_caps(caps),
        steps=steps,
        budget_s=flags.budget(budget),
        settle_s=flags.seconds(settle, "--settle", zero=True),
        prompt=prompt,
        connection=Connection(
            served_model=served_model, insecure=insecure, stall_s=timeout, threads=threads, context=context
        ),
        out=out or RUNS,
    )
    with bar() as progress:
        done = power_sweep(options, progress)
    unsaved = show.power_swept(done.run, done.folder, done.unsaved, as_json=as_json, full=full)
    left = [card.trouble for card in (done.run.power_sweep.cards if done.run.power_sweep else ()) if card.trouble]
    for trouble in left:
        say(trouble, 3)
    return done.exit_code if not unsaved else say(unsaved, done.exit_code or 3)


def restore(as_json: flags.Json = False) -> int:
    """Put back the limits of a power sweep that was killed together with its guard.

    Every other command of this family does so first, too.
    """
    from phasewise.jobs.power_restore import restore as job
    from phasewise.report import show

    cards = job()
    show.restored(cards, as_json=as_json)
    return 3 if any(card.trouble for card in cards) else 0


def put_back() -> None:
    """Put back what a killed sweep has left, and say so on stderr; what keeps it from that stops no other command."""
    from phasewise.jobs.power_restore import left_over

    try:
        cards = left_over()
    except InputError as why:
        say(str(why), 0)
        return
    if cards:
        from phasewise.report.view.power_sweep import put_back as sentences

        for sentence in sentences(cards):
            say(sentence, 0)


def _runs(names: list[str]) -> list[Path]:
    """``names`` as runs; none when the only one is a target.

    Raises:
        UsageError: several that are not all runs.
    """
    paths = [Path(name) for name in names if Path(name).exists()]
    if len(names) > 1 and len(paths) < len(names):
        other = next(name for name in names if not Path(name).exists())
        raise UsageError(f"{other[:80]!r} is no run: name one target, or runs only.")
    return paths


def _caps(text: str | None) -> tuple[int, ...] | None:
    """``700W,500W`` in milliwatts.

    Raises:
        UsageError: something else.
    """
    if text is None:
        return None
    try:
        watts = [float(part.strip().removesuffix("W").removesuffix("w")) for part in text.split(",")]
    except ValueError:
        watts = [0.0]
    if not all(0 < one < 1e5 for one in watts):
        raise UsageError(f"--caps {text[:60]!r} is not a list of watts: write 700W,500W,350W.")
    return tuple(round(1000 * one) for one in watts)
