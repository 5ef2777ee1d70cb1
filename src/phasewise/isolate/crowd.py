"""Many requests in the air at once, and all that came back: the one place of a sweep that talks to the engine."""

from __future__ import annotations

import itertools
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, Self

from phasewise.engines.base import Activity, Crowdable
from phasewise.engines.exchange import Exchange, Order
from phasewise.engines.selfwatch import Lateness, Watched
from phasewise.errors import EngineError, PhasewiseError
from phasewise.isolate.ledger.schema import Asked
from phasewise.isolate.ledger.sheet import FIRST, Sheet, Start

LOOK_EVERY_S = 0.1
"""The server's counters are read no more often than this while requests run ..."""

LOOK_SHARE = 0.1
"""... and for no larger part of the time."""

OVERRUN = 0.25
OVERRUN_S = 5.0
"""What runs when the budget is over may go on for this part of it, and these seconds; then it is broken off."""

MOST_IN_VAIN = 2
"""Groups in a row of which no request was answered, beyond which the run ends."""

BUSY = (429, 503)
"""HTTP statuses by which servers refuse a request because there are too many."""

FEW = 4
"""Tokens that may come in one read of a stream without anybody having collected them."""

SLICE_S = 0.1
"""The loop is asked for what has come this often, so that Ctrl-C and the progress are prompt."""


class Stream(NamedTuple):
    """One request: its ``exchange``, and the prompt and answer tokens that were asked for."""

    exchange: Exchange
    sent: int
    asked: int

    @property
    def prompt_tokens(self) -> int:
        """By the server's usage, else as sent."""
        counted = self.exchange.prompt_tokens
        return self.sent if counted is None else counted

    @property
    def whole(self) -> bool:
        """Whether the answer came as one piece: as one body, or as one event for all its tokens."""
        at_once = self.exchange.last_at <= self.exchange.first_at
        return not self.exchange.streamed or (at_once and (self.exchange.completion_tokens or self.asked) > FEW)


class Look(NamedTuple):
    """The server's counters, asked for at ``began`` and told by ``ended`` (``perf_counter`` seconds)."""

    began: float
    ended: float
    activity: Activity


class Progress(NamedTuple):
    """What is being measured and the part of the budget that is spent (0 to 1)."""

    doing: str
    fraction: float


class Watch(Protocol):
    """What watches a sender."""

    def lateness(self) -> Lateness:
        """What it did so far; of several, the worst of them."""


class Sender(Protocol):
    """What sends requests and gives them back when they are over, as `engines.loop.Loop` does in this process."""

    @property
    def watch(self) -> Watch:
        """Watches it."""

    @property
    def in_flight(self) -> int:
        """Requests that were sent and are not over."""

    @property
    def waiting(self) -> int:
        """Requests that are not sent yet."""

    def submit(self, order: Order) -> None:
        """Send ``order`` when it is due; one without a time is due now."""

    def step(self, until: float) -> list[Exchange]:
        """Work until ``until`` (``perf_counter`` seconds) or until something is over; return what is."""

    def cancel(self) -> list[Exchange]:
        """Break off everything; what was in the air comes back as it is."""

    def close(self) -> None:
        """Close every connection."""


class Crowd:
    """Requests of one sweep, as a context manager; ``close`` ends all that is in the air.

    Args:
        engine: what the requests are for.
        budget_s, max_tokens: what they may take in all.
        progress: told what is being done.
        book: takes the rows.
        start: where they begin.
        sender: makes what sends them, given what takes events as they come; None: this process does.

    Attributes:
        streams: what was answered or failed, in the order in which it ended; those that we broke off are not in it.
        looks: the server's counters while requests ran, read on a connection of their own.
        failures: what was said of requests that failed.
        refused_busy: of the last group, whether some were refused as too many.
        idle: the counters before the first request and after the last; fewer when the server has none.
        broken_off: requests that we ended ourselves because the budget was over.
    """

    def __init__(
        self,
        engine: Crowdable,
        *,
        budget_s: float,
        max_tokens: int,
        progress: Callable[[Progress], None] | None = None,
        book: Sheet | None = None,
        start: Start = FIRST,
        sender: Callable[[Sheet | None], Sender] | None = None,
    ) -> None:
        self.engine = engine
        self.streams: list[Stream] = []
        self.looks: list[Look] = []
        self.failures: list[str] = []
        self.idle: list[Activity] = []
        self.broken_off = self._in_vain = 0
        self.refused_busy = False
        self.began = time.perf_counter()
        self._budget, self._tokens_left = budget_s, max_tokens
        self._progress = progress
        self._asked: dict[int, tuple[int, int]] = {}
        self._arriving: set[int] = set()
        self._arrivals: list[tuple[float, float]] = []
        self._trial, self._count = start.trial, start.requests
        self._book = book
        if book is not None:
            book.begin(start.trial, self.began if start.zero is None else start.zero)
        self._loop: Sender = (
            sender(book) if sender else engine.loop(sink=book.sink if book is not None else None, keep=True)
        )
        self._closing = threading.Event()
        self._flying = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._look_idle()
        if self.idle:
            self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._flying.set()
        if self._watcher.is_alive():
            self._watcher.join(timeout=2 * SLICE_S)
        self._loop.close()

    def left(self) -> float:
        """Seconds of the budget that are left; negative when it is overspent."""
        return self.began + self._budget - time.perf_counter()

    def overrun(self) -> bool:
        """Whether the budget is overspent by so much that what runs is broken off."""
        return self.left() < -(OVERRUN * self._budget + OVERRUN_S)

    def affords(self, seconds: float, tokens: int) -> bool:
        """Whether requests that should take so long, and hold so many tokens, fit what is left."""
        return seconds <= self.left() and tokens <= self._tokens_left

    def tell(self, doing: str) -> None:
        """Say what is being done."""
        if self._progress:
            spent = 1 - self.left() / self._budget
            self._progress(Progress(doing, min(1.0, max(0.0, spent))))

    def submit(self, prompt: int, answer: int, *, due: float = 0.0, arrival: bool = False) -> int:
        """Send a new prompt of ``prompt`` tokens at ``due`` (``perf_counter`` seconds) or soon after; returns its key.

        With ``arrival`` it is one of many at random moments, which must not be much later: see `watched`.
        """
        self._count += 1
        drawn = self.engine.prompt(prompt)
        self._asked[self._count] = drawn.tokens, answer
        self._tokens_left -= drawn.tokens + answer
        if arrival:
            self._arriving.add(self._count)
        self._loop.submit(self.engine.order(self._count, drawn, answer, due=due))
        return self._count

    def ask(self, prompt: int, answer: int, many: int) -> list[Stream]:
        """``many`` requests of one shape at the same moment, to their ends; fewer when some failed."""
        self.refused_busy = False
        keys = [self.submit(prompt, answer) for _ in range(many)]
        return self.wait(keys)

    def wait(self, keys: Sequence[int]) -> list[Stream]:
        """Until all of ``keys`` have ended: those that were answered, in the order of ``keys``.

        Raises:
            EngineError: every one of them failed, and would fail again or did so before.
        """
        found: dict[int, Stream] = {}
        missing = set(keys)
        while missing:
            for stream in self.step(time.perf_counter() + SLICE_S):
                missing.discard(stream.exchange.key)
                found[stream.exchange.key] = stream
            if self.overrun():
                self._break_off()
                break
            if not self._loop.in_flight and not self._loop.waiting:
                break
        answered = [found[key] for key in keys if key in found and not found[key].exchange.error]
        if answered or not found:
            self._in_vain = 0
            return answered
        self._in_vain += 1
        statuses = {stream.exchange.status for stream in found.values()}
        if self._in_vain > MOST_IN_VAIN or any(400 <= status < 500 and status != BUSY[0] for status in statuses):
            raise EngineError(self.failures[-1])
        return []

    def step(self, until: float) -> list[Stream]:
        """Work until ``until`` or until something ended; returns what did, failed or not."""
        self._flying.set()
        done: list[Stream] = []
        while not done and (now := time.perf_counter()) < until:
            done = [self._kept(exchange) for exchange in self._loop.step(min(until, now + SLICE_S))]
            if self._book is not None:
                self._book.push()
        if not self._loop.in_flight and not self._loop.waiting:
            self._flying.clear()
        return done

    def finish(self) -> None:
        """Read the counters once more, with nothing in the air; the watcher's work is done."""
        self._closing.set()
        self._flying.set()
        if self._watcher.is_alive():
            self._watcher.join(timeout=5.0)
        if self.idle and not self._watcher.is_alive():
            self._look_idle()

    def watched(self) -> Watched:
        """What the client did meanwhile, and how late it sent the requests that were to arrive at random."""
        return Watched(self._loop.watch.lateness(), tuple(slip for _, slip in self._arrivals))

    def between(self) -> float:
        """Seconds from one of these arrivals to the next as planned, the median; 0 without any."""
        moments = sorted(due for due, _ in self._arrivals)
        return statistics.median(b - a for a, b in itertools.pairwise(moments)) if len(moments) > 1 else 0.0

    def tokens(self) -> tuple[int, int]:
        """Tokens sent and received so far."""
        return (
            sum(stream.prompt_tokens for stream in self.streams),
            sum(stream.exchange.completion_tokens or stream.asked for stream in self.streams),
        )

    def _kept(self, exchange: Exchange) -> Stream:
        stream = Stream(exchange, *self._asked.pop(exchange.key))
        if exchange.key in self._arriving and exchange.sent_at:
            self._arrivals.append((exchange.due, exchange.slip))
        self._row(stream)
        if exchange.error:
            self.failures.append(exchange.error)
            self.refused_busy = self.refused_busy or exchange.status in BUSY
        else:
            self.streams.append(stream)
        return stream

    def _break_off(self) -> None:
        ended = self._loop.cancel()
        self.broken_off += len(ended)
        for exchange in ended:
            if exchange.key in self._asked:
                self._row(Stream(exchange, *self._asked.pop(exchange.key)))

    def _row(self, stream: Stream) -> None:
        if self._book is not None:
            phase = "prefill" if stream.asked == 1 else "decode"
            worker = stream.exchange.worker
            self._book.ended(stream.exchange, Asked(self._trial, worker, None, stream.sent, stream.asked, phase))

    def _look_idle(self) -> None:
        try:
            activity = self.engine.activity()
        except PhasewiseError:
            return
        if activity is not None:
            self.idle.append(activity)

    def _watch(self) -> None:
        """In a thread of its own: reading a page must not hold up the receiving of tokens."""
        while True:
            self._flying.wait()
            if self._closing.is_set():
                return
            began = time.perf_counter()
            try:
                activity = self.engine.activity()
            except PhasewiseError:
                return  # counters are evidence, not the measurement: without them the check says so
            ended = time.perf_counter()
            if activity is not None:
                self.looks.append(Look(began, ended, activity))
            self._closing.wait(max(LOOK_EVERY_S, (ended - began) / LOOK_SHARE))
