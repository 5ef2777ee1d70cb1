"""What the power of a phase says."""

from __future__ import annotations

from phasewise.judge.power.checks import HELD
from phasewise.record.power import PhasePower
from phasewise.units import show

NEAR, FAR = 0.8, 0.6
"""Share of the limit from which on a phase is near it, and under which it is far from it."""

PAUSED = 0.9
"""Part of its windows in which a phase ran, under which their mean says little of its own power."""


def text(figures: PhasePower) -> str:
    """One sentence on a phase's watts."""
    watts = (
        f"{figures.phase} draws {show(figures.watts.value, 'W')}"
        if figures.phase not in ("busy", "all")
        else _whole(figures)
    )
    share = figures.share
    if share is None:
        return f"{watts}; the power limit is unknown, so its share cannot be told."
    part = f"{watts}, {show(share.value, '1')} of the limit"
    capped = max((device.capped.value for device in figures.devices if device.capped), default=0.0)
    if capped > HELD:
        return f"{part}: the limit holds the clock down, so it is power-bound there."
    if figures.phase in ("prefill", "decode") and figures.busy < PAUSED:
        ran = show(figures.busy, "1")
        return f"{part}, pauses between its requests among it: it ran in {ran} of that time, and drew more then."
    return f"{part}: {_MEANS[figures.phase][_place(share.value)]}."


def _whole(figures: PhasePower) -> str:
    part = "where they are busy the" if figures.phase == "busy" else "the"
    return f"{part} devices draw {show(figures.watts.value, 'W')}"


def _place(share: float) -> int:
    return 0 if share >= NEAR else 1 if share >= FAR else 2


_MEANS = {
    "prefill": (
        "near it, the matrix units are at work",
        "the matrix units work, but not all of the time",
        "far below it, the matrix units mostly wait (short prompts, launches, memory): MFU says how much",
    ),
    "decode": (
        "near it, as large batches and long contexts are",
        "decode waits for memory, and memory draws too",
        "far below it, which is no fault: decode waits for memory, and a lower limit would hardly slow it",
    ),
    "mixed": ("near it", "between the two phases", "far below it, as steps of mostly decode are"),
    "busy": ("near it", "below it", "far below it"),
    "all": ("near it", "below it", "far below it"),
}
"""By phase: near the limit, between, far below (design: prefill near the limit means that the matrix units work; decode
far below it is no fault)."""
