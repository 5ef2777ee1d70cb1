"""Devices that talk less, or while they compute."""

from __future__ import annotations

from phasewise.fix.patient import reject, remedy
from phasewise.fix.seen import Seen
from phasewise.record.remedies import Rejected, Remedy
from phasewise.units import show

NAME = "less exposed communication"


def communication(seen: Seen) -> Remedy | Rejected:
    """Where communication is the largest part, at most all of it hides behind math or goes with fewer devices."""
    talk = seen.timed.communication
    if seen.verdict.bound != "communication":
        return reject(seen.timed, NAME, f"communication is {show(seen.timed.share('communication'), '1', 2)} of a step")
    largest = max(
        (row for row in seen.found.top if row.family == "communication"), key=lambda row: row.gpu_time_s, default=None
    )
    named = f", most of them {largest.name[:80]}" if largest else ""
    return remedy(
        seen.timed,
        NAME,
        talk,
        low=0.0,
        high=talk,
        why=f"kernels of communication take {show(talk, 's')} of a step{named}; at most all of that goes, with another "
        "all-reduce (one-shot, multimem, fused with the norm), overlap with math, or fewer devices a replica",
        verify="switch the all-reduce or the layout and record again: the family's time should fall",
    )
