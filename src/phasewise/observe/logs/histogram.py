"""How often each whole number was seen: all that sums over a log need."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from phasewise.observe.logs.rows import Real, Whole

CHUNK = 1 << 18
"""Numbers handed on at a time, so that what is computed from them stays small."""

_PENDING = 1 << 20


class Histogram:
    """Distinct ``values``, ascending, and the ``counts`` of each."""

    def __init__(self, values: Whole, counts: Whole) -> None:
        self.values = values
        self.counts = counts

    @cached_property
    def _up_to(self) -> Whole:
        """Numbers seen before the i-th distinct value, with a last item for all of them."""
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(self.counts)])

    @property
    def seen(self) -> int:
        """How many numbers were seen."""
        return int(self._up_to[-1])

    @property
    def total(self) -> int:
        """Their sum, exact."""
        return int(np.dot(self.values, self.counts))

    @property
    def largest(self) -> int:
        """The largest of them; 0 for none."""
        return int(self.values[-1]) if len(self.values) else 0

    def count(self, value: int) -> int:
        """How many equal ``value``."""
        return int(self.counts[self.values == value].sum())

    def percentile(self, percent: int) -> int:
        """The smallest number that at least ``percent`` of all do not exceed (nearest rank); 0 for none."""
        if not self.seen:
            return 0
        rank = max(1, -(-percent * self.seen // 100))
        return int(self.values[np.searchsorted(self._up_to[1:], rank)])

    def above(self, limit: int) -> int:
        """The sum of what each number has above ``limit``."""
        return int(np.dot(np.maximum(self.values - limit, 0), self.counts))

    def below(self, numbers: Whole) -> Whole:
        """How many are smaller than each of ``numbers``."""
        found: Whole = self._up_to[np.searchsorted(self.values, numbers, "left")]
        return found

    def chunks(self) -> Iterator[tuple[Real, Real]]:
        """Values and counts in pieces of at most ``CHUNK``."""
        for at in range(0, len(self.values), CHUNK):
            yield self.values[at : at + CHUNK].astype(np.float64), self.counts[at : at + CHUNK].astype(np.float64)


class Tally:
    """A histogram that is still growing."""

    def __init__(self) -> None:
        self._parts: list[Histogram] = []
        self._pending = 0

    def add(self, numbers: Whole) -> None:
        """See ``numbers``."""
        self._take(Histogram(*np.unique(numbers, return_counts=True)))

    def merge(self, other: Histogram) -> None:
        """See all that ``other`` saw."""
        self._take(other)

    def _take(self, part: Histogram) -> None:
        self._parts.append(part)
        self._pending += len(part.values)
        if self._pending > _PENDING:
            whole = self.histogram()
            # A log whose numbers are all different leaves nothing to fold: then fold when as many again have come.
            self._parts, self._pending = [whole], -len(whole.values)

    def histogram(self) -> Histogram:
        """All that was seen."""
        if not self._parts:
            return Histogram(np.zeros(0, np.int64), np.zeros(0, np.int64))
        values = np.concatenate([part.values for part in self._parts])
        counts = np.concatenate([part.counts for part in self._parts])
        order = np.argsort(values, kind="stable")
        values, counts = values[order], counts[order]
        if not len(values):
            return Histogram(values, counts)
        first = np.flatnonzero(np.concatenate([[True], values[1:] != values[:-1]]))
        return Histogram(values[first], np.add.reduceat(counts, first))
