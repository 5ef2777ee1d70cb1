"""What the cards drew and how they were clocked while requests ran, from readings beside them."""

from __future__ import annotations

import bisect
import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from phasewise.hardware.power.base import Reading
from phasewise.record.power_sweep import Drawn
from phasewise.record.quantity import Quantity, measured
from phasewise.units import Unit

HIGH = 0.95
"""The quantile that stands for the most a card drew: a single reading may be a spike that no limit governs."""


class Span(NamedTuple):
    """When something ran, ``time.perf_counter()`` seconds."""

    begin: float
    end: float


class Beside:
    """Readings of ``devices`` in the order of time, to be asked for spans."""

    def __init__(self, readings: Sequence[Reading], devices: Sequence[int]) -> None:
        self._of = {
            device: sorted((one for one in readings if one.device == device), key=lambda one: one.at)
            for device in devices
        }
        self._at = {device: [one.at for one in given] for device, given in self._of.items()}

    def drawn(self, spans: Sequence[Span], slack_s: float = 0.0) -> Drawn:
        """What lies in ``spans``, each longer by ``slack_s`` at both ends: for those shorter than the time between two
        readings. Watts are of all devices together."""
        found = {device: self._inside(device, spans, slack_s) for device in self._of}
        watts = [_mean(_given(inside, "watts")) for inside in found.values()]
        every = [one for inside in found.values() for one in inside]
        highest = [_high(given) for inside in found.values() if (given := _given(inside, "watts"))]
        limits = _given(every, "limit_w")
        return Drawn(
            readings=min(map(len, found.values()), default=0),
            watts=_quantity(sum(w for w in watts if w is not None) if None not in watts and watts else None, "W"),
            highest_w=max(highest, default=None),
            sm=_quantity(_mean(_given(every, "sm_hz")), "Hz"),
            capped=_mean(_given(every, "capped")),
            hot=_mean(_given(every, "hot")),
            slowed=_mean(_given(every, "slowed")),
            limit_w=(min(limits), max(limits)) if limits else None,
        )

    def _inside(self, device: int, spans: Sequence[Span], slack_s: float) -> list[Reading]:
        at, given = self._at[device], self._of[device]
        found: list[Reading] = []
        after = -math.inf
        for span in sorted(spans):
            first = bisect.bisect_left(at, max(span.begin - slack_s, after))
            last = bisect.bisect_right(at, span.end + slack_s)
            found += given[first:last]
            after = max(after, math.nextafter(span.end + slack_s, math.inf))
        return found


def _given(readings: Sequence[Reading], name: str) -> list[float]:
    return [value for one in readings if (value := getattr(one, name)) is not None]


def _mean(values: Sequence[float]) -> float | None:
    return statistics.fmean(values) if values else None


def _high(values: Sequence[float]) -> float:
    return sorted(values)[math.ceil(HIGH * len(values)) - 1]


def _quantity(value: float | None, unit: Unit) -> Quantity | None:
    return None if value is None else measured(value, unit, "mean of the readings while the requests ran")
