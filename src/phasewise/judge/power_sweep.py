"""What a power cap does to each phase, from times and telemetry at several caps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from phasewise.record.observation import Phase
from phasewise.record.power_sweep import AtCap, Cap, CapVerdict, Drawn, Engaged, Knee
from phasewise.record.quantity import Quantity
from phasewise.units import show

COSTS = 0.02
"""A phase that takes this much longer, or more, is slowed."""

REACHED = 0.97
"""Share of the limit from which on a card's power is at it: drivers hold it a little below, and readings are coarse."""

OFTEN = 0.05
"""Share of readings with a throttle reason under which it was a moment's, such as the start of a burst."""

FEW = 5
"""Readings in a phase under which nothing is said of the cap: a quarter of a second at 50 ms each."""

_OTHERWISE = {"heat": "heat (thermal slowdown)", "board": "the board (power brake or hardware slowdown)"}


def engaged(drawn: Drawn, limit_w: float) -> Engaged:
    """Whether a cap of ``limit_w`` on each card held the phase down: its power reached it, or the driver says so."""
    if drawn.readings < FEW or (drawn.capped is None and drawn.highest_w is None):
        return "not_checked"
    said = drawn.capped is not None and drawn.capped >= OFTEN
    reached = drawn.highest_w is not None and drawn.highest_w >= REACHED * limit_w
    return "yes" if said or reached else "no"


def otherwise(drawn: Drawn) -> str:
    """What else held the clock down: ``heat``, ``board``, or nothing that was seen."""
    if (drawn.hot or 0.0) >= OFTEN:
        return "heat"
    return "board" if (drawn.slowed or 0.0) >= OFTEN else ""


def compared(caps: Sequence[Cap]) -> tuple[Cap, ...]:
    """``caps`` with each phase's ratio to the first of them, and whether the cap engaged."""
    found = []
    for cap in caps:
        limit = (cap.enforced or cap.limit).value
        sides = {
            phase: msgspec.structs.replace(
                at,
                ratio=_ratio(at, _of(caps[0], phase)) if cap is not caps[0] else None,
                engaged=engaged(at.drawn, limit),
                otherwise=otherwise(at.drawn),
            )
            for phase in _PHASES
            if (at := _of(cap, phase)) is not None
        }
        found.append(msgspec.structs.replace(cap, **sides))
    return tuple(found)


def verdicts(caps: Sequence[Cap]) -> tuple[CapVerdict, ...]:
    """What the caps do to prefill and to decode; ``caps`` as ``compared`` gives them."""
    return tuple(_verdict(phase, caps) for phase in _PHASES)


def knee(caps: Sequence[Cap]) -> Knee | None:
    """The lowest cap that costs decode under ``COSTS``, all above it costing no more; None without decode at two."""
    judged = [(cap, at) for cap, at in _judged("decode", caps) if at.ratio is not None]
    if not judged:
        return None
    lowest: tuple[Cap, AtCap] | None = None
    for cap, at in judged:
        if at.otherwise or at.ratio is None or at.ratio.value >= 1 + COSTS:
            break
        lowest = cap, at
    if lowest is None:
        first = judged[0][0]
        text = f"Already the first cap below the top, {_w(first)}, costs decode {COSTS:.0%} or more."
        return Knee(limit=None, sure=False, text=text)
    cap, at = lowest
    assert at.ratio is not None
    sure = at.ratio.high is not None and at.ratio.high < 1 + COSTS
    unless = "" if sure else " by the medians; its interval reaches further"
    held = "" if at.engaged == "yes" else ", but the cap did not engage there: a lower one may do as well"
    last = ", the lowest that was tried" if cap is judged[-1][0] else ""
    return Knee(
        limit=cap.limit,
        sure=sure,
        text=f"{_w(cap)}{last}: decode costs under {COSTS:.0%} more down to there{unless}{held}.{_price(cap, caps)}",
    )


def drift(caps: Sequence[Cap]) -> Iterator[str]:
    """Where the first cap, measured again at the end, gave another time: such a difference is no cap's doing."""
    for phase in _PHASES:
        again = next((at for cap in caps if cap.again and (at := _of(cap, phase)) is not None), None)
        if again is not None and again.ratio is not None and abs(again.ratio.value - 1) >= COSTS:
            yield (
                f"{phase.capitalize()} at the first cap took {again.ratio.value:.3f} times as long at the end as at "
                "the start: differences no larger than that are the machine's drift, not a cap's doing."
            )


_PHASES: tuple[Phase, Phase] = ("prefill", "decode")


def _of(cap: Cap, phase: Phase) -> AtCap | None:
    return cap.prefill if phase == "prefill" else cap.decode


def _judged(phase: Phase, caps: Sequence[Cap]) -> list[tuple[Cap, AtCap]]:
    """Points of ``phase`` that a verdict may rest on, from the highest cap down."""
    found = [
        (cap, at)
        for cap in caps
        if not cap.again and not cap.disturbed and not cap.doubts and (at := _of(cap, phase)) is not None
    ]
    return sorted(found, key=lambda one: -one[0].limit.value)


def _verdict(phase: Phase, caps: Sequence[Cap]) -> CapVerdict:
    points = _judged(phase, caps)
    name = phase.capitalize()
    if len(points) < 2 or points[0][0] is not caps[0]:
        text = f"{name} was not measured at two caps that can be compared: nothing is said of what a cap does to it."
        return CapVerdict(phase=phase, answer="not measured", text=text)
    lowest, at = points[-1]
    held = [(cap, one) for cap, one in points if one.engaged == "yes"]
    if not held:
        return _never(phase, points)
    if reason := next((one.otherwise for _, one in points if one.otherwise), ""):
        text = f"{name} was throttled by {_OTHERWISE[reason]} as well as by the cap: what it lost is not told apart."
        return CapVerdict(phase=phase, answer="throttled otherwise", text=text)
    assert at.ratio is not None
    ratio = at.ratio
    said = f"at {_w(lowest)} {phase} takes {_times(ratio)} its time at {_w(caps[0])}"
    since = f"the cap engaged from {_w(held[0][0])} down"
    if ratio.low is not None and ratio.low > 1 + COSTS:
        return CapVerdict(phase=phase, answer="slows", text=f"{name} is slowed: {said}; {since}.")
    if ratio.high is not None and ratio.high < 1 + COSTS:
        return CapVerdict(phase=phase, answer="hardly", text=f"{name} is hardly slowed: {said}; {since}.")
    text = f"Whether {phase} is slowed by {COSTS:.0%} is not decided: {said}; {since}. Measure longer (--budget)."
    return CapVerdict(phase=phase, answer="undecided", text=text)


def _never(phase: Phase, points: Sequence[tuple[Cap, AtCap]]) -> CapVerdict:
    """No cap was seen to engage: it did not, or that could not be told."""
    name = phase.capitalize()
    if any(at.engaged == "not_checked" for _, at in points):
        text = (
            f"Whether a cap engaged in {phase} could not be told: too few readings fell into its requests. Longer "
            "prompts (--prompt) and more time (--budget) give more."
        )
        return CapVerdict(phase=phase, answer="undecided", text=text)
    if reason := next((at.otherwise for _, at in points if at.otherwise), ""):
        text = (
            f"{name} was throttled by {_OTHERWISE[reason]}, not by a cap: its power reached none. What it lost is not "
            "the cap's doing."
        )
        return CapVerdict(phase=phase, answer="throttled otherwise", text=text)
    most = max((at.drawn.highest_w or 0.0 for _, at in points), default=0.0)
    drew = f"it drew {show(most, 'W')} at most on a card" if most else "the driver names no power throttling"
    text = (
        f"The cap never engaged in {phase}: {drew}, down to a cap of {_w(points[-1][0])}. This says nothing about how "
        "sensitive it is to one that would."
    )
    moved = [(cap, at) for cap, at in points if at.ratio is not None and _beyond(at.ratio)]
    if moved:
        cap, at = moved[-1]
        assert at.ratio is not None
        text += f" That it took {_times(at.ratio)} its time at {_w(cap)} has another cause."
    return CapVerdict(phase=phase, answer="never engaged", text=text)


def _beyond(ratio: Quantity) -> bool:
    low, high = ratio.low or ratio.value, ratio.high or ratio.value
    return low > 1 + COSTS or high < 1 - COSTS


def _ratio(at: AtCap, first: AtCap | None) -> Quantity | None:
    if first is None or first.time.value <= 0:
        return None
    return at.time.over(first.time, unit="1", provenance="measured", source="time at this cap over time at the first")


def _price(cap: Cap, caps: Sequence[Cap]) -> str:
    """What else that cap does: prefill's time, and decode's energy."""
    said = []
    if cap.prefill and cap.prefill.ratio:
        said.append(f"prefill takes {_times(cap.prefill.ratio)} its time")
    first = caps[0].decode
    if cap.decode and cap.decode.energy and first and first.energy and first.energy.value > 0:
        change = cap.decode.energy.value / first.energy.value - 1
        said.append(f"a token of the answer {abs(change):.1%} {'less' if change < 0 else 'more'} energy")
    return f" There {' and '.join(said)}." if said else ""


def _times(ratio: Quantity) -> str:
    if ratio.low is None or ratio.high is None:
        return f"{ratio.value:.3f} times"
    return f"{ratio.value:.3f} times ({ratio.low:.3f} to {ratio.high:.3f})"


def _w(cap: Cap) -> str:
    return show(cap.limit.value, "W")
