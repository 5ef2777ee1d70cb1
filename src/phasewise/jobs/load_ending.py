"""How a load run ended: its status, why, and the exit code that it deserves."""

from __future__ import annotations

import signal
from collections.abc import Sequence

from phasewise.isolate.workload.worker import Done
from phasewise.record.crew import Crew
from phasewise.record.envelope import Status
from phasewise.record.load import Load
from phasewise.record.power import Power


def ending(
    found: Load, done: Sequence[Done], stopped_by: int | None, no_rows: str, gave_out: str, power: Power | None
) -> tuple[Status, str, int]:
    """Status, reason and exit code.

    Args:
        stopped_by: the signal that ended it; None for none.
        no_rows: why rows could not be written any more.
        gave_out: why the rate was not sought to the end.
    """
    if stopped_by == signal.SIGTERM:
        return "interrupted", "ended by SIGTERM", 143
    if stopped_by is not None:
        return "interrupted", "interrupted by Ctrl-C", 130
    if no_rows:
        sent = sum(one.sent for one in done)
        lost = f", and no figure is of {sent - found.sent:,} of {sent:,} requests" if sent > found.sent else ""
        return "partial", f"the sending ended when rows could not be written any more ({no_rows}){lost}", 3
    if found.window is None:
        why = [one.why for one in done if one.why]
        return "partial", why[0] if why else found.missing.get("window", "nothing was measured"), 3
    if gave_out:
        return "partial", gave_out, 3
    if short := _short(found.crew, done):
        return "partial", short, 3
    if found.client is not None and not found.client.believed:
        return "complete", "", 3
    if power is not None and any(check.voids and check.status == "failed" for check in power.checks):
        return "complete", "", 3
    breaks = found.found is None and found.goodput is not None and found.goodput.holds == "breaks"
    return "complete", "", 1 if breaks else 0


def _short(crew: Crew | None, done: Sequence[Done]) -> str:
    """Which worker did not send what it should have, in words; empty when all did."""
    lost = [f"worker {one.worker} was lost" for one in crew.lost] if crew else []
    name = "worker {}: " if crew else ""
    return ", ".join(lost + [f"{name.format(one.worker)}{one.why}" for one in done if one.ending == "failing"])
