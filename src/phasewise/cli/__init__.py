"""The command line: one file per verb. Errors become one sentence and an exit code here, and nowhere else."""

from __future__ import annotations

import errno
import functools
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

try:  # half of the start is this, and Ctrl-C then is no reason for a traceback either
    import typer

    from phasewise import __version__
    from phasewise.cli.accelerators import accelerators
    from phasewise.cli.calibrate import calibrate
    from phasewise.cli.capture import capture
    from phasewise.cli.ceilings import ceilings
    from phasewise.cli.doctor import doctor
    from phasewise.cli.judge import judge
    from phasewise.cli.load import load
    from phasewise.cli.logs import logs
    from phasewise.cli.models import models
    from phasewise.cli.power import VERBS as POWER
    from phasewise.cli.power import power
    from phasewise.cli.predict import predict
    from phasewise.cli.profile import profile
    from phasewise.cli.report import report
    from phasewise.cli.simulate import simulate
    from phasewise.cli.stderr import say
    from phasewise.cli.sweep import sweep
    from phasewise.cli.trace import trace
    from phasewise.errors import Interrupted, PhasewiseError, Terminated
except KeyboardInterrupt:
    sys.exit(130)

# typer carries its own copy of click from some release on, so its base error is reached through a public one.
_CommandLineError: type[Exception] = typer.BadParameter.__mro__[2]

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
"""What only writing meets: a file that no command of ours has a sentence of its own for."""

VERBS = (
    profile,
    predict,
    sweep,
    load,
    capture,
    trace,
    judge,
    logs,
    report,
    ceilings,
    doctor,
    calibrate,
    models,
    accelerators,
    simulate,
)
"""Every verb, in the order of --help. A new one is a file in this folder and a name here."""


class _Verbs(typer.core.TyperGroup):
    """The verbs, with the family of `power` behind the trace that it stands beside, and not behind all others."""

    def list_commands(self, ctx: Any) -> list[str]:
        names = [name for name in super().list_commands(ctx) if name != "power"]
        return [*names[: names.index("trace") + 1], "power", *names[names.index("trace") + 1 :]]


app = typer.Typer(cls=_Verbs, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


def _interruptible(verb: Callable[..., int]) -> Callable[..., int]:
    """``verb`` with Ctrl-C as an error of ours: typer would turn it into a silent exit."""

    @functools.wraps(verb)
    def run_verb(*given: Any, **options: Any) -> int:
        try:
            return verb(*given, **options)
        except KeyboardInterrupt as stop:
            raise Interrupted("Interrupted.", stop) from None

    return run_verb


for family, verbs in ((app, VERBS), (power, POWER)):
    for verb in verbs:
        summary = (verb.__doc__ or "").split("\n", 1)[0]
        family.command(verb.__name__, short_help=summary)(_interruptible(verb))
app.add_typer(power, name="power", short_help="Power per phase, and what a cap does to each.")


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"phasewise {__version__}")
        raise typer.Exit


@app.callback()
def phasewise(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Profile prefill and decode of a large language model apart: which one owns the time, what binds it, what to fix.

    Start with `phasewise profile` (this machine, bundled model) or `phasewise profile http://HOST:PORT` (your server).
    """


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit.

    0; 1 a gate failed; 2 the user's mistake; 3 partial or disbelieved; 130 Ctrl-C; 143 SIGTERM.
    """
    sys.exit(run(arguments))


def run(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    try:
        with _sigterm_like_ctrl_c():
            given = sys.argv[1:] if arguments is None else arguments
            result = app(given or ["--help"], prog_name="phasewise", standalone_mode=False)
    except PhasewiseError as error:
        return say(str(error), error.exit_code)
    except _CommandLineError as error:
        context = getattr(error, "ctx", None)
        path = context.command_path if context else "phasewise"
        message: str = getattr(error, "format_message", error.__str__)()
        return say(f"{' '.join(message.split()).rstrip('.')}: see {path} --help.", 2)
    except (KeyboardInterrupt, typer.Abort):
        return say("Interrupted.", 130)
    except OSError as error:
        if error.filename is not None and error.errno in _NO_ROOM:
            where = f"{error.filename} cannot be written to ({error.strerror})"
            return say(f"{where}: make room there, or name another folder.", 3)
        if error.errno not in (errno.ENOSPC, errno.EIO, errno.EBADF) or error.filename is not None:
            raise
        sys.stdout = None  # of --help: what is left in it cannot be written at the end either
        return say(f"standard output cannot be written to ({error.strerror}): send it elsewhere.", 2)
    return result if isinstance(result, int) else 0


@contextmanager
def _sigterm_like_ctrl_c() -> Iterator[None]:
    """SIGTERM ends a command as Ctrl-C does: what was measured is kept, what was started is stopped."""

    def stop(signum: int, frame: object) -> None:
        raise Terminated

    try:
        before = signal.signal(signal.SIGTERM, stop)
    except ValueError:  # not the main thread: a program that uses phasewise has its own handler
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
