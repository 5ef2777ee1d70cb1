"""The command line: one file per verb. Errors become one sentence and an exit code here, and nowhere else."""

from __future__ import annotations

import sys
from typing import Annotated

import click
import typer

from phasewise import __version__
from phasewise.cli.ceilings import ceilings
from phasewise.cli.predict import predict
from phasewise.cli.profile import profile
from phasewise.cli.report import report
from phasewise.cli.simulate import simulate
from phasewise.errors import PhasewiseError

VERBS = (profile, predict, report, ceilings, simulate)
"""Every verb, in the order of --help. A new one is a file in this folder and a name here."""

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
for verb in VERBS:
    app.command(verb.__name__)(verb)


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
        result = app(arguments, prog_name="phasewise", standalone_mode=False)
    except PhasewiseError as error:
        return _say(str(error), error.exit_code)
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        path = context.command_path if context else "phasewise"
        return _say(f"{error.format_message().rstrip('.')}: see {path} --help.", 2)
    except (KeyboardInterrupt, click.Abort):
        return _say("Interrupted.", 130)
    except BrokenPipeError:
        # The reader of our output left (head, less): nothing to say, and nobody to say it to.
        sys.stdout = None
        return 0
    return result if isinstance(result, int) else 0


def _say(sentence: str, code: int) -> int:
    print(f"phasewise: {sentence}", file=sys.stderr)
    return code
