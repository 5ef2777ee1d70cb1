"""How many different ids a stream holds, in bounded memory."""

from __future__ import annotations

import numpy as np

from phasewise.observe.logs.rows import Ids

KEPT = 1 << 21
"""Ids kept at most; a stream with fewer different ones is counted exactly."""

_ODD = np.uint64(0x9E3779B97F4A7C15)


class Distinct:
    """Adaptive sampling (Wegman; Flajolet 1990): keep the ids whose hash is below a bound, halve the bound when full.

    An id is kept whenever it comes or never, so those kept over the part of all hashes below the bound is an estimate
    of the different ids without bias, with a standard error of 1/√kept.
    """

    def __init__(self) -> None:
        self.seen = 0
        self._shift = 0
        self._kept: Ids = np.zeros(0, np.uint64)
        self._pending: list[Ids] = []

    def add(self, ids: Ids) -> None:
        """See ``ids``."""
        self.seen += len(ids)
        self._pending.append(self._low(_mixed(ids)))
        if sum(map(len, self._pending)) > KEPT // 2:
            self._fold()

    def _low(self, hashes: Ids) -> Ids:
        return hashes[hashes >> np.uint64(64 - self._shift) == 0] if self._shift else hashes

    def _fold(self) -> None:
        # Sorted by hand: numpy's unique uses a hash table here, which already spread hashes make very slow.
        kept = np.sort(np.concatenate([self._kept, *self._pending]))
        self._kept = kept[np.concatenate([[True], kept[1:] != kept[:-1]])] if len(kept) else kept
        self._pending = []
        while len(self._kept) > KEPT:
            self._shift += 1
            self._kept = self._low(self._kept)

    def estimate(self) -> tuple[float, float]:
        """How many different ids there were, and the standard error of that number: 0 when it is exact."""
        self._fold()
        count = float(len(self._kept)) * 2.0**self._shift
        return count, count * (1 - 2.0**-self._shift) ** 0.5 / max(1, len(self._kept)) ** 0.5


def _mixed(ids: Ids) -> Ids:
    """A hash that keeps different ids different (each step can be undone) and spreads runs of them evenly.

    The finaliser of SplitMix64 (Steele, Lea, Flood 2014).
    """
    x = ids + _ODD
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
