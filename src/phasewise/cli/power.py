"""`phasewise power`, a family: what was drawn (`show`, the default), and what a cap does."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from phasewise.cli import flags


class _Family(typer.core.TyperGroup):
    """`phasewise power RUN ...` means `phasewise power show RUN ...`: only a verb's name is not a file's."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        known = args and args[0] in self.commands
        return super().parse_args(ctx, args if known else ["show", *args])


power = typer.Typer(cls=_Family, add_completion=False, rich_markup_mode=None, no_args_is_help=False)
"""The verbs of the family: each is `@power.command`."""


def show(
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="RUN|TRACE...", help="A run or traces to join the telemetry to.", show_default=False),
    ] = None,
    as_json: flags.Json = False,
) -> int:
    """Power per phase: watts, share of the limit, joules per token.

    Examples: phasewise power; phasewise power phasewise-runs/LAST --telemetry nvidia-smi.csv
    """
    raise NotImplementedError


VERBS = (show,)
"""Every verb of the family, in the order of --help."""
