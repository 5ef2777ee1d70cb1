"""What the cards drew and how they were clocked while requests ran, however short each was, from readings beside them.

Watts and joules of a whole phase are judge/power's, which needs windows of 200 ms. The clock of one request, and
whether a limit held it down, are of the readings next to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from phasewise.hardware.power.base import Device, Reading
from phasewise.judge.power.windows import Window, inside
from phasewise.observe.telemetry.series import Floats, Series, of_readings
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
    """Readings of ``devices``, to be asked for spans."""

    def __init__(self, readings: Sequence[Reading], devices: Sequence[int]) -> None:
        named = [Device(index=i, name="") for i in range(max(devices, default=-1) + 1)]
        found = {one.device.index: one for one in of_readings(named, readings)}
        self._series = [found.get(index) for index in devices]

    def drawn(self, spans: Sequence[Span], slack_s: float = 0.0) -> Drawn:
        """What lies in ``spans``, each longer by ``slack_s`` at both ends: for those shorter than the time between two
        readings. Watts are of all devices together."""
        windows = [Window(span.begin - slack_s, span.end + slack_s, 0.0, 1, None) for span in spans]
        found = [None if one is None else inside(one, windows) for one in self._series]
        each = [np.empty(0) if one is None else _given([one], "watts") for one in found]
        read = [one for one in found if one is not None]
        limits = _given(read, "limit_w")
        together = sum(float(np.mean(one)) for one in each) if each and all(map(len, each)) else None
        return Drawn(
            readings=min((0 if one is None else len(one.time) for one in found), default=0),
            watts=_quantity(together, "W"),
            highest_w=max((_high(one) for one in each if len(one)), default=None),
            sm=_quantity(_mean(read, "sm_hz"), "Hz"),
            capped=_mean(read, "capped"),
            hot=_mean(read, "hot"),
            slowed=_mean(read, "slowed"),
            limit_w=(float(limits.min()), float(limits.max())) if len(limits) else None,
        )


def _given(read: Sequence[Series], name: str) -> Floats:
    """What the readings say of ``name``, all devices together."""
    values: Floats = np.concatenate([np.empty(0), *(getattr(one, name) for one in read)])
    return values[np.isfinite(values)].astype(np.float64)


def _mean(read: Sequence[Series], name: str) -> float | None:
    values = _given(read, name)
    return float(np.mean(values)) if len(values) else None


def _high(values: Floats) -> float:
    return float(np.quantile(values, HIGH, method="inverted_cdf"))


def _quantity(value: float | None, unit: Unit) -> Quantity | None:
    return None if value is None else measured(value, unit, "mean of the readings while the requests ran")
