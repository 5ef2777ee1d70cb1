"""`phasewise ceilings`."""

from __future__ import annotations

from typing import Annotated

import typer

from phasewise.cli import flags


def ceilings(
    seconds: Annotated[
        float | None,
        typer.Option("--seconds", min=1, max=600, help="Measure for about this long (default 8); implies --again."),
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Measure again instead of showing what was kept.")] = False,
    as_json: flags.Json = False,
) -> int:
    """What this machine really reaches: its matmul rate per dtype, and its bandwidth of reading and copying memory.

    Measured once per machine and kept. Run it on a quiet machine.
    """
    from phasewise.jobs.ceilings import ceilings as job
    from phasewise.report import ceilings as shown
    from phasewise.report.progress import bar

    with bar() as progress:
        machine = job(seconds, again=again, progress=progress)
    shown.show(machine, as_json=as_json)
    return 0
