"""Requests that run together, whatever sends them: a crowd of streams to a server, or rows of one batch in process."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Protocol, Self

from phasewise.engines.base import Activity
from phasewise.engines.exchange import exchanged
from phasewise.engines.selfwatch import Lateness, Watched
from phasewise.isolate.crowd import Look, Progress, Stream
from phasewise.isolate.ledger.schema import Asked
from phasewise.isolate.ledger.sheet import FIRST, Sheet, Start
from phasewise.isolate.recorded import Recordable


class Group(Protocol):
    """What asks for many answers at once, and what it knows afterwards: see `isolate.crowd.Crowd`."""

    began: float
    streams: list[Stream]
    looks: list[Look]
    failures: list[str]
    idle: list[Activity]
    broken_off: int
    refused_busy: bool

    def __enter__(self) -> Self:
        """Begin."""

    def __exit__(self, *_: object) -> None:
        """End everything."""

    def left(self) -> float:
        """Seconds of the budget that are left."""

    def affords(self, seconds: float, tokens: int) -> bool:
        """Whether requests that should take so long fit what is left."""

    def tell(self, doing: str) -> None:
        """Say what is being done."""

    def ask(self, prompt: int, answer: int, many: int) -> list[Stream]:
        """``many`` requests of one shape, to their ends; fewer when some failed."""

    def finish(self) -> None:
        """Nothing more will be asked."""

    def tokens(self) -> tuple[int, int]:
        """Tokens sent and received so far."""

    def watched(self) -> Watched:
        """What the client did meanwhile."""

    def between(self) -> float:
        """Seconds between arrivals that were planned; 0 without any."""


class InStep:
    """A `Group` of an engine in process, whose requests are the rows of one batch: they begin and step together."""

    def __init__(
        self,
        engine: Recordable,
        *,
        budget_s: float,
        progress: Callable[[Progress], None] | None = None,
        book: Sheet | None = None,
        start: Start = FIRST,
    ) -> None:
        self.began = time.perf_counter()
        self.streams: list[Stream] = []
        self.looks: list[Look] = []
        self.failures: list[str] = []
        self.idle: list[Activity] = []
        self.broken_off, self.refused_busy = 0, False
        self._engine, self._budget, self._progress = engine, budget_s, progress
        self._book, self._trial, self._count = book, start.trial, start.requests
        if book is not None:
            book.begin(start.trial, self.began if start.zero is None else start.zero)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is in the air."""

    def left(self) -> float:
        """Seconds of the budget that are left."""
        return self.began + self._budget - time.perf_counter()

    def affords(self, seconds: float, tokens: int) -> bool:
        """Whether so many seconds are left."""
        return seconds <= self.left()

    def tell(self, doing: str) -> None:
        """Say what is being done."""
        if self._progress:
            self._progress(Progress(doing, min(1.0, max(0.0, 1 - self.left() / self._budget))))

    def ask(self, prompt: int, answer: int, many: int) -> list[Stream]:
        """``many`` rows, to their ends.

        Raises:
            EngineError: the model failed.
        """
        prompts = [self._engine.prompt(prompt) for _ in range(many)]
        answers = self._engine.together(prompts, answer)
        found = []
        for sent, given in zip(prompts, answers, strict=True):
            self._count += 1
            found.append(Stream(exchanged(self._count, given), sent.tokens, answer))
        self.streams += found
        self._rows(found)
        return found

    def finish(self) -> None:
        """There are no counters to read."""

    def tokens(self) -> tuple[int, int]:
        """Tokens sent and received so far."""
        return sum(one.prompt_tokens for one in self.streams), sum(one.asked for one in self.streams)

    def watched(self) -> Watched:
        """The engine takes the times itself: there is no client that could be late."""
        return Watched(Lateness(wall_s=0.0, cpu_share=0.0, reads=0, stamped=False, lag_p50_s=None, lag_p99_s=None))

    def between(self) -> float:
        """No arrivals are planned."""
        return 0.0

    def _rows(self, streams: Sequence[Stream]) -> None:
        if self._book is None:
            return
        for one in streams:
            phase = "prefill" if one.asked == 1 else "decode"
            self._book.sink(one.exchange.key, one.exchange.arrivals)
            self._book.ended(one.exchange, Asked(self._trial, 0, None, one.sent, one.asked, phase))
        self._book.push()
