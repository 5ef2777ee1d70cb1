"""Another process's clock on ours: from round trips, of which the quickest bound the offset whatever the network does.

A round trip tells that the other clock was read between two readings of ours, so the offset lies within half its
duration of the middle (Cristian, "Probabilistic clock synchronization", Distributed Computing 3, 1989), however
unequal the two ways are. Of each burst of trips only the quickest counts; a line through the bursts gives the drift.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

DRIFT = 50e-6
"""How far apart two clocks may well run, seconds a second: crystals are good to some 50 ppm. What is known before a
long enough time has told it; the fit is drawn to 0 by that much, and not more."""

USABLE = 2.0
"""A burst whose quickest trip took this many times as long as the quickest of all tells little, and is left out."""


class Trip(NamedTuple):
    """A round trip: our clock before, theirs, our clock after."""

    before: float
    there: float
    after: float


class Clock:
    """Theirs to ours, seconds. Bursts are added in the order of time.

    Attributes:
        error: no time that was, or is, on a line through bursts is off by more, as long as both clocks run evenly:
            half the quickest trip of each burst and what the line missed it by. A line is also held against the burst
            that came after it, so what was converted in between is covered.
        drift: seconds a second that ours gains on theirs.
        round_trip: the quickest.
    """

    def __init__(self) -> None:
        self.error = self.drift = 0.0
        self.round_trip = float("inf")
        self._points: list[tuple[float, float, float]] = []
        self._sure: list[bool] = []
        self._at = self._offset = 0.0

    def add(self, trips: Sequence[Trip], *, sure: bool = False) -> None:
        """Take a burst; one that is ``sure`` is not left out however long it took: the first and the last."""
        best = min(trips, key=lambda trip: trip.after - trip.before)
        half = (best.after - best.before) / 2
        self.round_trip = min(self.round_trip, 2 * half)
        self._points.append((best.there, (best.before + best.after) / 2 - best.there, half))
        self._sure.append(sure or len(self._points) == 1)
        usable = np.array(self._sure)
        points = np.array(self._points)
        usable |= points[:, 2] <= USABLE * self.round_trip / 2
        if not usable[-1]:
            return
        if len(self._points) > 1:
            self.error = max(self.error, self._off(points[-1:]))
        self._fit(points[usable])
        self.error = max(self.error, self._off(points[usable]))

    def ours(self, there: float) -> float:
        """Our time at their time ``there``."""
        return there + self._offset + self.drift * (there - self._at)

    def theirs(self, ours: float) -> float:
        """Their time at ours."""
        return self._at + (ours - self._offset - self._at) / (1 + self.drift)

    def _fit(self, points: np.ndarray) -> None:
        """Least squares, bursts weighted by what they bound, the slope drawn to 0 as far as `DRIFT` says."""
        there, offset, half = points.T
        weight = 1 / np.maximum(half, 1e-9) ** 2
        self._at = float(np.average(there, weights=weight))
        self._offset = float(np.average(offset, weights=weight))
        away = there - self._at
        self.drift = float((weight * away * offset).sum() / ((weight * away**2).sum() + DRIFT**-2))

    def _off(self, points: np.ndarray) -> float:
        """How far the line may be off at ``points``."""
        there, offset, half = points.T
        return float((np.abs(offset - self._offset - self.drift * (there - self._at)) + half).max())
