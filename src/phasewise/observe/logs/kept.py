"""What is kept of a log while its rows go by."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from phasewise.observe.logs.distinct import Distinct
from phasewise.observe.logs.histogram import Tally
from phasewise.observe.logs.lengths import Lengths
from phasewise.observe.logs.rows import Clock, Rows

BLOCK = 512
"""Prompt tokens that an id of Mooncake's stands for."""


class Reuse(NamedTuple):
    """Blocks of all prompts, and how many different ones there were, with its standard error (0: exact).

    ``tokens`` of a block; None when there are not as many blocks as prompts of ``BLOCK`` tokens each would have.
    """

    blocks: int
    different: float
    error: float
    tokens: int | None


class Observed(NamedTuple):
    """What is kept of one log.

    ``first`` and ``last`` are the earliest and the latest time in seconds, by ``clock``; None when it does not tell.
    """

    path: Path
    form: str
    lengths: Lengths
    clock: Clock | None
    first: float | None
    last: float | None
    reuse: Reuse | None


class Kept:
    """Takes rows, block by block, and gives what was observed."""

    def __init__(self) -> None:
        self.requests = 0
        self._tallies = [Tally() for _ in Lengths._fields]
        self._clock: Clock | None = None
        self._first, self._last = np.inf, -np.inf
        self._ids: Distinct | None = Distinct()
        self._blocks = 0

    def add(self, rows: Rows) -> None:
        """Keep what is needed of ``rows``."""
        self.requests += len(rows.prompt)
        answered = rows.answer > 0
        starts = rows.prompt[answered]
        for tally, numbers in zip(
            self._tallies, (rows.prompt, rows.answer, starts, starts + rows.answer[answered]), strict=True
        ):
            tally.add(numbers)
        self._clock = rows.clock
        if rows.time is not None and len(rows.time):
            self._first, self._last = min(self._first, rows.time.min()), max(self._last, rows.time.max())
        self._see(rows)

    def _see(self, rows: Rows) -> None:
        if rows.block_ids is None:
            self._ids = None
        if self._ids is not None and rows.block_ids is not None:
            self._ids.add(rows.block_ids)
            self._blocks += int((-(-rows.prompt // BLOCK)).sum())

    def observed(self, path: Path, form: str) -> Observed:
        """All that was kept."""
        told = bool(np.isfinite(self._first))
        return Observed(
            path=path,
            form=form,
            lengths=Lengths(*(tally.histogram() for tally in self._tallies)),
            clock=self._clock if told else None,
            first=float(self._first) if told else None,
            last=float(self._last) if told else None,
            reuse=self._reuse(),
        )

    def _reuse(self) -> Reuse | None:
        if self._ids is None or not self._ids.seen:
            return None
        different, error = self._ids.estimate()
        return Reuse(self._ids.seen, different, error, BLOCK if self._ids.seen == self._blocks else None)
