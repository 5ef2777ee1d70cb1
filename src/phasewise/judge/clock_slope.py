"""How each phase's time follows the SM clock, from requests that ran at different clocks by themselves.

Within requests of one shape, log(time) = a - slope · log(clock). Compute-bound work follows the clock (slope 1);
memory-bound work does not (slope 0), for the memory has a clock of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from phasewise.fitting import student
from phasewise.record.observation import Phase
from phasewise.record.power_sweep import Drawn, Follows, Slope
from phasewise.record.quantity import Quantity, measured

SPREAD = 1.03
"""Highest over lowest clock of requests of one shape, under which the clock is said to have stood still."""

LEAST = 6
"""Requests under which no slope is given."""

TOLD = 0.35
"""Half the interval's width from which on 0 and 1 are not told apart."""

_HELD = (("capped", "the power cap"), ("hot", "heat"), ("slowed", "the board"))


class Clocked(NamedTuple):
    """One request: what makes it comparable with others, its time (s), and what the cards did meanwhile."""

    phase: Phase
    shape: tuple[object, ...]
    seconds: float
    drawn: Drawn


def slopes(requests: Iterable[Clocked]) -> tuple[Slope, ...]:
    """Of prefill and of decode."""
    given = list(requests)
    return tuple(_slope(phase, [one for one in given if one.phase == phase]) for phase in ("prefill", "decode"))


def _slope(phase: Phase, given: Sequence[Clocked]) -> Slope:
    usable = [one for one in given if one.drawn.sm is not None and one.drawn.sm.value > 0 and one.seconds > 0]
    clocks = [one.drawn.sm.value for one in usable if one.drawn.sm is not None]
    lowest = _clock(min(clocks), "lowest of the requests") if clocks else None
    highest = _clock(max(clocks), "highest of the requests") if clocks else None
    name = phase.capitalize()

    def answer(follows: Follows, text: str, slope: Quantity | None = None) -> Slope:
        return Slope(
            phase=phase,
            follows=follows,
            slope=slope,
            lowest=lowest,
            highest=highest,
            samples=len(usable),
            moved=_moved(usable),
            text=text,
        )

    if len(usable) < LEAST or lowest is None or highest is None:
        few = f"{len(usable)} requests of {phase} with a clock beside them" if usable else f"no {phase} with a clock"
        return answer("not measured", f"{name}: {few}, and a slope needs {LEAST} at least.")
    groups = _groups(usable)
    spread = max((max(x for x, _ in group) - min(x for x, _ in group) for group in groups), default=0.0)
    if spread < math.log(SPREAD):
        text = (
            f"{name}: the SM clock stood between {lowest} and {highest}, too little for a slope: it says nothing of "
            "what a lower clock would do."
        )
        return answer("too little spread", text)
    slope = _fitted(groups)
    return answer(_follows(slope), f"{name} {_words(slope)} (clock from {lowest} to {highest}).", slope)


def _groups(usable: Sequence[Clocked]) -> list[list[tuple[float, float]]]:
    """(log 1/clock, log time) of the requests of each shape; a shape with one request says nothing."""
    by: dict[tuple[object, ...], list[tuple[float, float]]] = {}
    for one in usable:
        assert one.drawn.sm is not None
        by.setdefault(one.shape, []).append((-math.log(one.drawn.sm.value), math.log(one.seconds)))
    return [group for group in by.values() if len(group) > 1]


def _fitted(groups: Sequence[Sequence[tuple[float, float]]]) -> Quantity:
    """Least squares with one slope and a constant per shape; the interval is Student's, 95%."""
    xs: list[float] = []
    ys: list[float] = []
    for group in groups:
        x_mean, y_mean = (math.fsum(column) / len(group) for column in zip(*group, strict=True))
        xs += [x - x_mean for x, _ in group]
        ys += [y - y_mean for _, y in group]
    across = math.fsum(x * x for x in xs)
    value = math.fsum(x * y for x, y in zip(xs, ys, strict=True)) / across
    rest = math.fsum((y - value * x) ** 2 for x, y in zip(xs, ys, strict=True))
    degrees = len(xs) - len(groups) - 1
    source = f"log time over log of 1/clock, {len(xs)} requests, a constant for each of {len(groups)} shapes"
    if degrees < 1:
        return measured(value, "1", source)
    half = student(0.95, degrees) * math.sqrt(rest / degrees / across)
    return measured(value, "1", source, value - half, value + half)


def _follows(slope: Quantity) -> Follows:
    if slope.low is None or slope.high is None or slope.high - slope.low > 2 * TOLD:
        return "undecided"
    if slope.value > 1 - TOLD:
        return "clock"
    return "memory" if slope.value < TOLD else "both"


def _words(slope: Quantity) -> str:
    between = "" if slope.low is None or slope.high is None else f" ({_two(slope.low)} to {_two(slope.high)})"
    said = {
        "clock": "follows the SM clock, as compute-bound work does: a cap that lowers the clock slows it as much",
        "memory": "does not follow the SM clock, as work that waits for memory or the host: a lower clock costs little",
        "both": "follows the SM clock in part",
        "undecided": "may or may not follow the SM clock: the requests scatter too much",
    }[_follows(slope)]
    return f"{said}; slope {_two(slope.value)}{between}, where 1 is the clock and 0 is not"


def _two(value: float) -> str:
    """Two decimals, and no minus before nothing."""
    return f"{round(value, 2) + 0.0:.2f}"


def _moved(usable: Sequence[Clocked]) -> tuple[str, ...]:
    """What the driver says held the clock down."""
    return tuple(word for field, word in _HELD if any((getattr(one.drawn, field) or 0.0) >= 0.05 for one in usable))


def _clock(hertz: float, source: str) -> Quantity:
    return measured(hertz, "Hz", f"SM clock, {source}")
