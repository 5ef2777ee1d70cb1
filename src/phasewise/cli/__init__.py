"""The command line: one file per verb. Errors become one sentence and an exit code here, and nowhere else."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from phasewise import __version__
from phasewise.cli.accelerators import accelerators
from phasewise.cli.ceilings import ceilings
from phasewise.cli.logs import logs
from phasewise.cli.models import models
from phasewise.cli.predict import predict
from phasewise.cli.profile import profile
from phasewise.cli.report import report
from phasewise.cli.simulate import simulate
from phasewise.errors import PhasewiseError

# typer carries its own copy of click from some release on, so its base error is reached through a public one.
_CommandLineError: type[Exception] = typer.BadParameter.__mro__[2]

VERBS = (profile, predict, logs, report, ceilings, simulate, models, accelerators)
"""Every verb, in the order of --help. A new one is a file in this folder and a name here."""

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
for verb in VERBS:
    summary = (verb.__doc__ or "").split("\n", 1)[0]
    app.command(verb.__name__, short_help=summary)(verb)


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
    """Run the command line and exit: 0, 1 a gate failed, 2 the user's mistake, 3 partial or disbelieved, 130 Ctrl-C."""
    sys.exit(run(arguments))


def run(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    try:
        given = sys.argv[1:] if arguments is None else arguments
        result = app(given or ["--help"], prog_name="phasewise", standalone_mode=False)
    except PhasewiseError as error:
        return _say(str(error), error.exit_code)
    except _CommandLineError as error:
        context = getattr(error, "ctx", None)
        path = context.command_path if context else "phasewise"
        message: str = getattr(error, "format_message", error.__str__)()
        return _say(f"{' '.join(message.split()).rstrip('.')}: see {path} --help.", 2)
    except (KeyboardInterrupt, typer.Abort):
        return _say("Interrupted.", 130)
    except BrokenPipeError:
        # The reader of our output left (head, less): nothing to say, and nobody to say it to.
        sys.stdout = None
        return 0
    return result if isinstance(result, int) else 0


def _say(sentence: str, code: int) -> int:
    print(f"phasewise: {sentence}", file=sys.stderr)
    return code
