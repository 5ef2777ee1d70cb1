"""`phasewise accelerators`."""

from __future__ import annotations

from typing import Annotated

import typer

from phasewise.cli import flags


def accelerators(
    search: Annotated[
        list[str] | None,
        typer.Argument(metavar="SEARCH", help="A name, or words that names, vendor or kind must have."),
    ] = None,
    as_json: flags.Json = False,
) -> int:
    """The accelerators that phasewise knows, with sources; a name alone shows everything about it.

    Your own go into ~/.config/phasewise/accelerators.csv, whose first line names its columns, of each device:
    name,kind,memory_GB,bandwidth_GB/s,bf16_TFLOP/s,source (docs/accelerators.md lists all).
    """
    from phasewise.jobs.catalogues import accelerators as job
    from phasewise.report import catalogues

    catalogues.accelerators(job(search or ()), as_json=as_json)
    return 0
