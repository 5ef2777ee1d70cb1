"""What a set of points cannot say, in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from phasewise.errors import ImpossibleMeasurement, UsageError
from phasewise.judge.calibrate.interval import FEWEST
from phasewise.predict.efficiency import Array
from phasewise.record.calibration import Point
from phasewise.units import show

FEWEST_POINTS = 2
"""Below it nothing can be left out, so no error could be stated."""

_ABSURD = 100.0
"""Times the floor beyond which seconds look like milliseconds."""


def enough(points: Sequence[Point]) -> None:
    """Refuse fewer than two settings.

    Raises:
        UsageError: they are too few.
    """
    if len(points) < FEWEST_POINTS:
        raise UsageError(
            f"a calibration needs at least {FEWEST_POINTS} different settings and this is {len(points)}: measure a "
            "short and a long prompt, and a small and a large batch."
        )


def possible(points: Sequence[Point], floor: Array) -> None:
    """Refuse a step that is faster than its floor.

    Raises:
        ImpossibleMeasurement: one is.
    """
    for point, least in zip(points, floor, strict=True):
        if point.seconds < least:
            raise ImpossibleMeasurement(
                f"{point.source}: a {point.phase} in {show(point.seconds, 's')} is faster than its floor of "
                f"{show(float(least), 's')}: the accelerator, the format or tp are others than stated, the prompt was "
                "cached, or only a part of the batch was timed."
            )


def notes(points: Sequence[Point], floor: Array) -> tuple[str, ...]:
    """What cannot be told apart or is not known, one sentence each."""
    return tuple(_notes(points, floor))


def _notes(points: Sequence[Point], floor: Array) -> Iterator[str]:
    prefill = [point for point in points if point.phase == "prefill"]
    decode = [point for point in points if point.phase == "decode"]
    if not prefill:
        yield "No prefill point: compute and the time to admit a prompt stay as assumed."
    elif len({point.tokens * point.batch for point in prefill}) == 1:
        yield "One prompt length only: compute and overhead of a prefill cannot be told apart."
    if not decode:
        yield "No decode point: bandwidth and the time per answered request stay as assumed."
    elif len({point.batch for point in decode}) == 1:
        yield f"One decode batch only ({decode[0].batch:g}): bandwidth and overhead cannot be told apart."
    devices = {point.devices for point in points}
    if devices == {1}:
        yield "One device only: what devices say to each other stays as assumed."
    elif len(devices) == 1:
        yield f"tp {devices.pop()} only: compute and communication cannot be told apart."
    for phase, some in (("prefill", prefill), ("decode", decode)):
        if 0 < len(some) < FEWEST:
            many = f"{len(some)} {phase} points" if len(some) > 1 else f"One {phase} point"
            yield f"{many}: an 80% interval needs {FEWEST}."
    slow = sorted(point.seconds / least for point, least in zip(points, floor, strict=True))[len(points) // 2]
    if slow > _ABSURD:
        yield f"The points are {slow:,.0f} times slower than their floors: are their seconds milliseconds?"
