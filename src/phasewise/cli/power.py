"""`phasewise power`, a family: what was drawn (`show`, the default), and what a cap does."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from phasewise.cli import flags
from phasewise.cli.power_sweep import put_back, restore, sweep
from phasewise.cli.stderr import say
from phasewise.errors import UsageError

if TYPE_CHECKING:
    from phasewise.jobs.power import Options


class _Family(typer.core.TyperGroup):
    """`phasewise power RUN ...` means `phasewise power show RUN ...`: only a verb's name is not a file's."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        known = args and args[0] in self.commands
        return super().parse_args(ctx, args if known else ["show", *args])


power = typer.Typer(cls=_Family, add_completion=False, rich_markup_mode=None, no_args_is_help=False)
"""The verbs of the family: each is a function in VERBS."""


def show(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="RUN|TRACE...",
            help="A run of phasewise profile, or the traces of one job. None: what can be read on this machine.",
            show_default=False,
        ),
    ] = None,
    telemetry: Annotated[
        list[Path] | None,
        typer.Option(
            "--telemetry",
            metavar="FILE",
            help="What a monitor wrote meanwhile: nvidia-smi, dmon, dcgmi, a DCGM exporter, amd-smi, rocm-smi, "
            "powermetrics; may be repeated. Without a run: the files by themselves.",
        ),
    ] = None,
    gpus: Annotated[str | None, typer.Option("--gpus", metavar="N,N,...", help="Only these devices.")] = None,
    limit: Annotated[
        float | None, typer.Option("--limit", metavar="WATTS", min=1, help="Enforced limit, where no file says it.")
    ] = None,
    zone: Annotated[
        str | None,
        typer.Option("--zone", help="Zone of times without one: UTC, +02:00, Europe/Berlin. [this machine's]"),
    ] = None,
    offset: Annotated[
        float, typer.Option("--offset", metavar="SECONDS", help="Add to the files' times: what their clock was behind.")
    ] = 0.0,
    start: Annotated[
        str | None,
        typer.Option(
            "--start", metavar="TIME", help="When a file without times, or with its own zero, begins (with zone)."
        ),
    ] = None,
    every: Annotated[
        str | None, typer.Option("--every", metavar="TIME", help="From row to row, of a file without times: 1s, 100ms.")
    ] = None,
    exporter: flags.Exporter = "",
    seconds: Annotated[
        str | None,
        typer.Option("--for", metavar="TIME", help="How long to read this machine, without a run. [1s]"),
    ] = None,
    out: flags.Out = None,
    full: flags.Full = False,
    as_json: flags.Json = False,
) -> int:
    """Power per phase: watts, share of the limit, joules per token. See also: phasewise power sweep --help.

    Examples: phasewise power; phasewise power phasewise-runs/20261130T120000Z-llama;
    phasewise power RUN --telemetry nvidia-smi.csv --zone UTC
    """
    from phasewise.jobs import power as jobs
    from phasewise.observe.telemetry import times
    from phasewise.observe.telemetry.read import Placing
    from phasewise.record.run import RUNS
    from phasewise.report import show as reports
    from phasewise.report.progress import bar

    put_back()
    placed = {"--zone": zone, "--offset": offset or None, "--start": start, "--every": every}
    if not telemetry:
        _unused(
            {**placed, "--gpus": gpus, "--limit": limit}, "is about a monitor's file: name it with --telemetry FILE"
        )
    if files or telemetry:
        _unused({"--for": seconds}, "says how long to read this machine: leave it out, or runs and files")
    if not math.isfinite(offset):
        raise UsageError(f"--offset {offset} is no number of seconds: write 3600 or -0.5.")
    options = jobs.Options(
        inputs=tuple(files or ()),
        telemetry=tuple(telemetry or ()),
        placing=Placing(
            zone=times.zone(zone) if zone else None,
            offset_s=offset,
            start=times.start(start) if start else None,
            every_s=flags.seconds(every, "--every") if every else None,
        ),
        gpus=_indices(gpus),
        limit_w=limit,
        out=out or RUNS,
    )
    if not options.inputs and not options.telemetry:
        return _watch(flags.seconds(seconds or "1s", "--for"), exporter, as_json)
    if exporter:
        raise UsageError("--exporter reads now: leave out runs and files, or give what was saved of it as --telemetry.")
    if not options.inputs:
        return _recordings(options, as_json)
    with bar() as progress:
        done = jobs.power(options, progress)
    if done.folder is None:
        reports.power(done.run, None, "json" if as_json else "text", full=full)
        return done.exit_code
    unsaved = reports.powered(done.run, done.folder, done.unsaved, as_json=as_json, full=full)
    return done.exit_code if not unsaved else say(unsaved, done.exit_code or 3)


def _unused(given: dict[str, Any], why: str) -> None:
    """Refuse what would be passed over: a flag that does nothing looks like one that did.

    Raises:
        UsageError: any of the flags was given.
    """
    name = next((name for name, value in given.items() if value is not None), None)
    if name is not None:
        raise UsageError(f"{name} {why}.")


def _recordings(options: Options, as_json: bool) -> int:
    from phasewise.jobs.power import recordings
    from phasewise.report import show as reports

    found = recordings(options)
    reports.recordings(found, as_json=as_json)
    return 3 if any(check.status == "failed" for check in found.checks) else 0


def _watch(seconds: float, exporter: str, as_json: bool) -> int:
    from phasewise.jobs.power import watch
    from phasewise.report import show as reports
    from phasewise.report.live import live

    with live() as seen:
        found, code = watch(seconds, exporter, seen)
    reports.watched(found, as_json=as_json)
    return code


def _indices(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    try:
        found = tuple(int(part) for part in text.split(","))
    except ValueError:
        found = ()
    if not found or min(found) < 0:
        raise UsageError(f"--gpus {text[:40]!r} is not a list of devices: write 0 or 0,1,2,3.")
    return found


VERBS = (show, sweep, restore)
"""Every verb of the family, in the order of --help."""
