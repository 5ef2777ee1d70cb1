"""What a reader of one form of log gets and gives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

Whole = npt.NDArray[np.int64]
Real = npt.NDArray[np.float64]

Ids = npt.NDArray[np.uint64]

Clock = Literal["date", "seconds"]
"""How a log tells time: by date, or by a number whose zero may be anything."""

LARGEST = 100_000_000
"""More tokens than any request has: a count above it is a mistake in the log."""


class Block(NamedTuple):
    """Whole lines, each ended by a newline, and the number (from 1) of the first of them."""

    line: int
    text: bytes


class Head(NamedTuple):
    """The first line of a log that is not blank, as text, and where it stands."""

    path: Path
    line: int
    text: str


class Rows(NamedTuple):
    """Requests in the order of the log, one item of each array per request.

    ``prompt`` and ``answer`` are tokens, ``time`` seconds (None for a log that does not tell). ``block_ids`` are the
    ids of the prompts' KV blocks, all requests' one after the other, and ``block_counts`` how many each has; None where
    a request has none.
    """

    prompt: Whole
    answer: Whole
    time: Real | None
    clock: Clock | None
    block_ids: Ids | None = None
    block_counts: Whole | None = None


class Log(NamedTuple):
    """A log whose form is known: its name, the line its rows start on, and what turns a block of them into rows."""

    form: str
    line: int
    rows: Callable[[Block], Rows]

    def below(self, block: Block) -> Block:
        """The part of the first ``block`` that holds rows."""
        skipped = self.line - block.line
        return Block(self.line, block.text.split(b"\n", skipped)[skipped])
