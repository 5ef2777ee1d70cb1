"""`phasewise simulate`: a plan from a preset and the user's own numbers, served until it is stopped."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from phasewise.engines.simulated.plan import Plan
from phasewise.engines.simulated.presets import PRESETS
from phasewise.errors import UsageError


def make_plan(like: str | None, given: Mapping[str, Any]) -> Plan:
    """The preset ``like`` (none: the defaults of Plan) with the fields in ``given`` replaced.

    Raises:
        UsageError: an unknown preset.
    """
    if like is not None and like not in PRESETS:
        raise UsageError(f"--like knows no {like!r}: it takes {', '.join(PRESETS)}.")
    return msgspec.structs.replace(PRESETS[like].plan if like else Plan(), **given)


def simulate(
    plan: Plan,
    *,
    host: str,
    port: int,
    api_key: str | None,
    log: Path | None,
    seconds: float | None,
    announce: Callable[[str], None],
) -> None:
    """Serve ``plan`` until Ctrl-C or for ``seconds``; ``announce`` gets the URL once it answers.

    Raises:
        UsageError: the address or the log cannot be had.
    """
    from phasewise.engines.simulated.server import serve

    serve(plan, host=host, port=port, api_key=api_key, log=log, seconds=seconds, announce=announce)
