"""`phasewise models`."""

from __future__ import annotations

from typing import Annotated

import typer

from phasewise.cli import flags


def models(
    search: Annotated[
        list[str] | None, typer.Argument(metavar="SEARCH", help="A name, or words that names must have.")
    ] = None,
    as_json: flags.Json = False,
) -> int:
    """The models that phasewise knows by name, with sources; a name alone shows everything about it.

    Your own go into ~/.config/phasewise/models.json: {"my-model": {"source": "...", "config": {config.json's keys}}}.
    """
    from phasewise.jobs.catalogues import models as job
    from phasewise.report import catalogues

    catalogues.models(job(search or ()), as_json=as_json)
    return 0
