"""Prepare the next step while this one runs."""

from __future__ import annotations

from phasewise.fix.patient import reject, remedy
from phasewise.fix.seen import Seen
from phasewise.record.remedies import Rejected, Remedy
from phasewise.units import show

NAME = "asynchronous scheduling"


def async_scheduling(seen: Seen) -> Remedy | Rejected:
    """At most the idle time between steps goes: scheduling and preparing of inputs hide behind work."""
    gaps, steps = seen.found.gaps, seen.found.steps
    if gaps is None or gaps.between_s is None:
        return reject(seen.timed, NAME, "the trace shows no two steps after each other")
    between = min(gaps.between_s / max(1, steps), seen.part("host"))
    return remedy(
        seen.timed,
        NAME,
        between,
        low=0.0,
        high=between,
        why=f"the device has nothing to do for {show(between, 's')} between one step and the next; at most that is "
        "hidden when the host prepares a step while the one before runs",
        verify="turn it on (SGLang's overlap schedule, vLLM's --async-scheduling) and record again: the gaps between "
        "steps should close",
    )
