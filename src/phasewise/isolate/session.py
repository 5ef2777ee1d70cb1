"""Asking one request at a time and keeping everything that came back."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from phasewise.engines import stamps
from phasewise.engines.base import Activity, Engine
from phasewise.engines.exchange import Exchange, exchanged, joined
from phasewise.errors import BrokenStream, EngineError, Refused
from phasewise.isolate.costs import Costs
from phasewise.isolate.ledger.schema import Asked
from phasewise.isolate.ledger.sheet import FIRST, Sheet, Start
from phasewise.isolate.machine import Load, load
from phasewise.isolate.sample import Beside, Sample, Shape
from phasewise.record.observation import Phase

SNAPSHOT_EVERY_S = 0.3
"""The server's counters are read no more often than this: reading them is load too."""

SETTLE_S = 0.05
"""Counters may trail the answer they count: a server that looks busy is asked once more after this long."""

MOST_FAILURES, MOST_IN_A_ROW = 3, 2
"""Requests that may fail, in all and one after the other, before a failure ends the run."""

TOO_LONG = (400, 413, 422)
"""HTTP statuses by which servers refuse a prompt that is too long."""


class Progress(NamedTuple):
    """What is being measured, how many requests were answered, and the part of the budget that is spent (0 to 1)."""

    phase: Phase
    doing: str
    requests: int
    fraction: float


class Snapshot(NamedTuple):
    """The server's counters while we were idle, and what we had sent and received by then.

    ``lost_tokens`` were asked for by requests that failed: the server may have counted them, or not.
    """

    activity: Activity
    prompt_tokens: int
    output_tokens: int
    lost_tokens: int


class Session:
    """The one place that talks to the engine.

    ``clock`` (seconds) is what the budget is held against; a test may pass one that does not run. ``book`` takes the
    rows of a request, and of its chunks, as soon as it has ended; ``start`` says where they begin.

    Attributes:
        samples: the requests that were answered, in order.
        failures: what was said of those that failed, in order.
        snapshots: the server's counters.
        loads: CPU time of the machine, each time that ``watch`` was called.
        costs: what requests should take, from ``samples``.
        refused: the shortest prompt that the server refused as too long, tokens, and its HTTP status.
        reserved_s: seconds of the budget that ``left`` keeps back.
        beside: the requests that were answered and are no samples of a phase.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        budget_s: float,
        progress: Callable[[Progress], None] | None = None,
        clock: Callable[[], float] = time.perf_counter,
        book: Sheet | None = None,
        start: Start = FIRST,
    ) -> None:
        self.engine = engine
        self.samples: list[Sample] = []
        self.failures: list[str] = []
        self.snapshots: list[Snapshot] = []
        self.loads: list[Load] = []
        self.costs = Costs(self.samples)
        self.refused: tuple[int, int] | None = None
        self.reserved_s = 0.0
        self.beside: list[Beside] = []
        self.began = clock()
        self._budget = budget_s
        self._progress = progress
        self._clock = clock
        self._next_snapshot = 0.0
        self._in_a_row = self._lost_tokens = 0
        self._at_once = False
        self._book = book
        self._start, self._count = start, start.requests
        if book is not None:
            book.begin(start.trial, time.perf_counter() if start.zero is None else start.zero)

    def after(self) -> Start:
        """Where the rows of the next measurement of the same run begin."""
        return Start(self._start.trial + 1, self._count, self.began if self._start.zero is None else self._start.zero)

    def left(self) -> float:
        """Seconds of the budget that are left; negative when it is overspent."""
        return self.began + self._budget - self.reserved_s - self._clock()

    def takes(self, tokens: int) -> bool:
        """Whether the server has not refused a prompt of ``tokens`` yet."""
        return self.refused is None or tokens < self.refused[0]

    def offer(self, phase: Phase, shape: Shape) -> bool:
        """``ask`` for a length that the server may refuse; False when it does.

        Raises:
            EngineError: as ``ask``.
        """
        try:
            self.ask(phase, shape)
        except Refused as refusal:
            if refusal.status not in TOO_LONG or not self.samples:
                raise
            self.refused = shape.prompt, refusal.status
            return False
        return True

    def ask(self, phase: Phase, shape: Shape, *, warmup: bool = False) -> None:
        """Send one request of ``shape`` and keep its sample, or what was said when it failed.

        A few failures that may pass (HTTP 5xx, a stream that broke) are told by a check and do not end the run.

        Raises:
            EngineError: the engine failed for good, or once too often; what was kept before stays.
        """
        self._tell(phase, shape, warmup)
        self.snapshot()
        prompt = self.engine.prompt(shape.prompt)
        lag = _oversleep()
        cpu, wall, offset = time.process_time(), self._clock(), stamps.offset()
        self._count += 1
        began = time.perf_counter()
        try:
            answer = self.engine.ask(prompt, shape.answer)
        except (BrokenStream, Refused) as error:
            if isinstance(error, Refused) and error.status < 500:
                raise
            lost = Exchange(key=self._count, due=began, error=str(error), arrivals=joined([]))
            self._row(lost, Asked(self._start.trial, 0, None, prompt.tokens, shape.answer, phase))
            self._failed(error, shape)
            return
        self._in_a_row = 0
        self.samples.append(
            Sample(
                phase=phase,
                shape=shape,
                sent_tokens=prompt.tokens,
                answer=answer,
                warmup=warmup,
                cpu_s=time.process_time() - cpu,
                wall_s=self._clock() - wall,
                lag_s=lag,
                clock_moved_s=abs(stamps.offset() - offset) * 1e-9,
                at_once=self._at_once and phase == "decode",
                number=self._count,
            )
        )
        self._row(exchanged(self._count, answer), Asked(self._start.trial, 0, None, prompt.tokens, shape.answer, phase))

    def took(self, beside: Beside) -> None:
        """Keep a request that is no sample of a phase."""
        self.beside.append(beside)
        self._count += 1
        exchange = msgspec.structs.replace(beside.exchange, key=self._count)
        self._row(exchange, Asked(self._start.trial, 0, None, beside.shape.prompt, beside.shape.answer, "beside"))

    def at_once(self) -> None:
        """Take it from here on, and for the answers so far, that none has a token before it is complete."""
        self._at_once = True
        self.samples[:] = [msgspec.structs.replace(s, at_once=s.phase == "decode") for s in self.samples]

    def watch(self) -> None:
        """Read the CPU time of the machine, when the engine is ours and its part of it can be told."""
        if self.engine.target.settings:
            self.loads.append(load())

    def snapshot(self, *, now: bool = False) -> None:
        """Read the server's counters, unless that was done just before; ``now`` insists."""
        if not now and self._clock() < self._next_snapshot:
            return
        activity = self._activity()
        if activity is not None and (activity.running or activity.waiting):
            time.sleep(SETTLE_S)
            activity = self._activity()
        if activity is not None:
            self.snapshots.append(Snapshot(activity, *self.tokens(), self._lost_tokens))
        self._next_snapshot = self._clock() + SNAPSHOT_EVERY_S

    def tokens(self) -> tuple[int, int]:
        """Tokens sent and received so far."""
        every: list[Sample | Beside] = [*self.samples, *self.beside]
        return sum(one.prompt_tokens for one in every), sum(one.counted[0] for one in every)

    def _row(self, exchange: Exchange, asked: Asked) -> None:
        """Hand on the rows of a request."""
        if self._book is not None:
            self._book.sink(exchange.key, exchange.arrivals)
            self._book.ended(exchange, asked)
            self._book.push()

    def _failed(self, error: EngineError, shape: Shape) -> None:
        """Note a failure; raise it when it was one too many."""
        self.failures.append(str(error))
        self._in_a_row += 1
        self._lost_tokens += shape.prompt + shape.answer
        if len(self.failures) > MOST_FAILURES or self._in_a_row > MOST_IN_A_ROW:
            raise error

    def _activity(self) -> Activity | None:
        try:
            return self.engine.activity()
        except EngineError:
            return None  # counters are evidence, not the measurement: without them the check says so

    def _tell(self, phase: Phase, shape: Shape, warmup: bool) -> None:
        if self._progress:
            doing = f"{'warming up, ' if warmup else ''}{shape.prompt:,} tokens in, {shape.answer:,} out"
            spent = 1 - self.left() / self._budget if self._budget > 0 else 1.0
            self._progress(Progress(phase, doing, len(self.samples), min(1.0, max(0.0, spent))))


def _oversleep() -> float:
    start = time.perf_counter()
    time.sleep(0.001)
    return time.perf_counter() - start - 0.001
