"""The driver: it shares a plan out to workers, has them start together, gathers their rows, and counts who is lost."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from concurrent.futures import TimeoutError as TookTooLong
from contextlib import contextmanager
from typing import Any

from phasewise import __version__
from phasewise.engines.openai import OpenAIServer
from phasewise.engines.text import clean
from phasewise.errors import EngineError, Unreachable, UsageError
from phasewise.isolate.crew.afar import Afar
from phasewise.isolate.crew.hand import Gone, Hand, Silent
from phasewise.isolate.crew.member import ALONE_S
from phasewise.isolate.crew.post import AGAIN, ALIGN_S, FIRST, Post, Shift, cause
from phasewise.isolate.ledger.book import Book
from phasewise.isolate.ledger.sheet import Sheet
from phasewise.isolate.workload.plan import Plan
from phasewise.isolate.workload.worker import Done
from phasewise.record.crew import Crew as Record
from phasewise.record.crew import Lost

EVERY_S = 0.5
"""Each worker is asked for its rows this often."""

LEAD_S = 0.5
"""From all being ready to the start that they agree on."""

READY_S = 120.0
"""Time to make the first requests in."""

STOP_S = 10.0
"""Workers that were told to stop have so long to say what they saw."""

_LOOK_S = 0.05


class Crew:
    """Workers of one run.

    Attributes:
        lost: those that fell out, in the order in which they did.

    Args:
        hired: how they were asked for, as it may be shown.
        hands: one for each.

    Raises:
        UsageError: a worker has another version of phasewise.
        EngineError: a worker does not answer.
    """

    def __init__(self, hired: str, hands: Sequence[Hand]) -> None:
        self._hired = hired
        self._posts = [Post(number, hand) for number, hand in enumerate(hands)]
        self.lost: list[Lost] = []
        self.start = 0.0
        for post, version in self._ask_all("version"):
            if version != __version__:
                raise UsageError(
                    f"{_named(post)} has phasewise {clean(str(version), 30)}, this is {__version__}: install the same."
                )

    def connect(self, server: OpenAIServer) -> None:
        """Have all connect to ``server``, which was probed here.

        Raises:
            EngineError: one cannot reach it.
        """
        for post, why in self._ask_all("connect", server):
            if why:
                raise Unreachable(f"{_named(post)} cannot reach the server: {clean(str(why), 300)}")

    def send(
        self,
        plan: Plan,
        book: Book,
        *,
        trial: int,
        drain_s: float,
        most: int,
        stopped: Callable[[], bool],
        tell: Callable[[int, int], None],
    ) -> tuple[Done, ...]:
        """Send ``plan`` together, its rows into ``book``; see `workload.worker.Worker` for the arguments.

        A worker that is lost costs what it had not handed over; the others go on.

        Raises:
            EngineError: all were lost before anything was sent.
        """
        shifts = self._ready(plan, trial, drain_s, most)
        self.start = time.perf_counter() + LEAD_S
        for shift in shifts:
            shift.begin(self.start)
        with _stopping(shifts):
            self._gather(shifts, plan, book, stopped, tell)
        for shift in shifts:
            self._align(shift, plan, FIRST, sure=True)
        return tuple(shift.done for shift in shifts if shift.done is not None)

    def sender(self, book: Sheet | None) -> Afar:
        """What sends requests one by one, as a loop does; ``book`` takes events as they come.

        Raises:
            EngineError: no worker is left.
        """
        return Afar(self._posts, self.lost, alone_s=ALONE_S, book=book)

    def record(self) -> Record:
        """What there is to say of them."""
        return Record(hired=self._hired, members=tuple(post.member() for post in self._posts), lost=tuple(self.lost))

    def _ask_all(self, method: str, *arguments: Any) -> Iterator[tuple[Post, Any]]:
        """Ask all at once, answers in their order.

        Raises:
            EngineError: one does not answer.
        """
        asked = [(post, post.hand.ask(method, *arguments)) for post in self._posts]
        for post, answer in asked:
            try:
                yield post, answer.result(READY_S)
            except (Gone, Silent, TookTooLong) as error:
                raise EngineError(f"{_named(post)} does not answer ({cause(error)}): see that it runs.") from None

    def _ready(self, plan: Plan, trial: int, drain_s: float, most: int) -> list[Shift]:
        """Shares, made ready, with clocks compared. A worker that is lost meanwhile takes nothing with it."""
        while True:
            posts = [post for post in self._posts if not post.gone]
            if not posts:
                raise EngineError(f"every worker was lost, the last one because {self.lost[-1].why}.")
            shifts = [Shift(post, plan.share(place, len(posts)), trial) for place, post in enumerate(posts)]
            asked = [
                (shift, shift.post.hand.ask("prepare", shift.share, trial, drain_s, -(-most // len(posts))))
                for shift in shifts
            ]
            for shift, answer in asked:
                try:
                    answer.result(READY_S)
                    shift.post.align(FIRST, sure=True)
                except (Gone, Silent, TookTooLong) as error:
                    self._lose(shift, plan, cause(error))
            if not any(post.gone for post in posts):
                return shifts

    def _gather(
        self,
        shifts: Sequence[Shift],
        plan: Plan,
        book: Book,
        stopped: Callable[[], bool],
        tell: Callable[[int, int], None],
    ) -> None:
        until = float("inf")
        while running := [shift for shift in shifts if shift.running]:
            now = time.perf_counter()
            if until == float("inf") and stopped():
                until = now + STOP_S
                for shift in running:
                    shift.post.hand.ask("stop")
            for shift in running:
                if now > min(shift.heard + ALONE_S, until):
                    self._lose(shift, plan, "it did not answer any more")
                elif shift.answer is None and now - shift.asked > EVERY_S:
                    if now - shift.aligned > ALIGN_S:
                        self._align(shift, plan, AGAIN)
                    if shift.running:
                        shift.ask()
            waited = [shift.answer for shift in running if shift.answer is not None]
            if waited:
                wait(waited, _LOOK_S, FIRST_COMPLETED)
            else:
                time.sleep(_LOOK_S)
            for shift in running:
                if shift.running and shift.answer is not None and shift.answer.done():
                    self._hear(shift, plan, book)
            book.push()
            tell(sum(shift.sent for shift in shifts), sum(shift.ended for shift in shifts))

    def _hear(self, shift: Shift, plan: Plan, book: Book) -> None:
        assert shift.answer is not None
        answer, shift.answer = shift.answer, None
        try:
            report = answer.result()
        except (Silent, Gone) as error:
            if isinstance(error, Gone) or not shift.asked:  # whether one began that was silent then cannot be told
                self._lose(shift, plan, cause(error))
            return
        if report is None:  # it has begun
            return
        for frame in shift.hear(report):
            book.add(frame)
        if report.fault:
            self._lose(shift, plan, clean(report.fault, 300))

    def _align(self, shift: Shift, plan: Plan, trips: int, *, sure: bool = False) -> None:
        shift.aligned = time.perf_counter()
        if shift.post.gone:
            return
        try:
            shift.post.align(trips, sure=sure)
        except Silent:
            return
        except Gone as error:
            if shift.running:
                self._lose(shift, plan, cause(error))
            shift.post.gone = True

    def _lose(self, shift: Shift, plan: Plan, why: str) -> None:
        shift.post.gone = True
        self.lost.append(shift.lost(plan, why))


@contextmanager
def _stopping(shifts: Sequence[Shift]) -> Iterator[None]:
    """However it ends, nobody goes on sending."""
    try:
        yield
    finally:
        for shift in shifts:
            if shift.running:
                shift.post.hand.ask("stop")


def _named(post: Post) -> str:
    return f"worker {post.number} ({clean(post.hand.where, 60)})"
