"""Requests sent by workers elsewhere as if by a loop here: `crowd.Sender` whose loops are `outpost.Outpost`s.

Which worker sends a request is decided when it is submitted: the one with the fewest open. What comes back is on our
clock. A worker that is lost fails the requests that it had, and the others go on.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures import TimeoutError as TookTooLong
from functools import partial
from typing import Any

import msgspec
import numpy as np

from phasewise.engines.exchange import Arrivals, Exchange, Order, joined
from phasewise.engines.loop import BROKEN_OFF
from phasewise.engines.selfwatch import Lateness
from phasewise.errors import EngineError
from phasewise.isolate.crew.clocks import Clock
from phasewise.isolate.crew.hand import Gone, Silent
from phasewise.isolate.crew.outpost import Found, Harvest
from phasewise.isolate.crew.post import AGAIN, ALIGN_S, FIRST, Post, cause
from phasewise.isolate.ledger.sheet import Sheet
from phasewise.record.crew import Lost

PATIENCE_S = 0.1
"""A worker is asked for what came this often, and answers earlier when a request has ended."""

FIRST_LEAD_S, SPARE_S, LEADS = 0.05, 5e-3, 16
"""Requests that are to leave at once do so together, when all workers should have theirs: after as long as the slowest
of the last calls took, and some more; at first after a guess."""

ANSWER_S = 10.0
"""Time for a worker to break off, or to open."""


class Afar:
    """See `crowd.Sender`. The workers have the server already.

    Args:
        posts: the workers.
        lost: where those that fall out are noted.
        alone_s: a worker that says nothing for so long is lost.
        book: takes events as they come; None: nobody does.

    Raises:
        EngineError: there is no worker.
    """

    def __init__(self, posts: Sequence[Post], lost: list[Lost], *, alone_s: float, book: Sheet | None = None) -> None:
        self._lost, self._alone_s, self._book = lost, alone_s, book
        self._began = time.perf_counter()
        self._legs = [_Leg(post) for post in posts if not post.gone]
        self._pending: list[Order] = []
        self._finished: list[Exchange] = []
        self._calls: deque[float] = deque([FIRST_LEAD_S], LEADS)
        self.watch = _Watches(self._legs)
        for leg, answer in [(leg, leg.post.hand.ask("open")) for leg in self._legs]:
            try:
                answer.result(ANSWER_S)
                leg.post.align(FIRST, sure=True)
            except (Gone, Silent, TookTooLong) as error:
                self._lose(leg, cause(error))

    @property
    def in_flight(self) -> int:
        """Requests that workers have."""
        return sum(len(leg.open) for leg in self._legs)

    @property
    def waiting(self) -> int:
        """Requests that no worker has yet, or that nobody was told the end of."""
        return len(self._pending) + len(self._finished)

    def submit(self, order: Order) -> None:
        """Send ``order`` when it is due; one without a time is due with all others that come before the next step."""
        self._pending.append(order)

    def step(self, until: float) -> list[Exchange]:
        """Work until ``until`` (``perf_counter`` seconds) or until something is over; return what is.

        Raises:
            EngineError: every worker was lost.
        """
        self._hand_out()
        while not self._finished and (now := time.perf_counter()) < until:
            for leg in self._alive():
                self._attend(leg, now)
            answers = [leg.answer for leg in self._alive() if leg.answer is not None]
            if answers:
                wait(answers, min(until - now, PATIENCE_S), FIRST_COMPLETED)
            elif not self._finished:
                time.sleep(min(until - now, PATIENCE_S / 10))
            for leg in self._alive():
                if leg.answer is not None and leg.answer.done():
                    self._hear(leg)
        done, self._finished = self._finished, []
        return done

    def cancel(self) -> list[Exchange]:
        """Break off everything; what was in the air comes back as it is, what was not sent is forgotten."""
        self._pending.clear()
        legs = list(self._alive())
        for leg, answer in [(leg, leg.post.hand.ask("cancel")) for leg in legs]:
            try:
                answer.result(ANSWER_S)
                self._take(leg, leg.post.hand.ask("harvest", leg.have, 0.0).result(ANSWER_S))
            except (Gone, Silent, TookTooLong) as error:
                self._lose(leg, cause(error))
            leg.open.clear()
        ended = [one for one in self._finished if one.error == BROKEN_OFF]
        self._finished = [one for one in self._finished if one.error != BROKEN_OFF]
        return ended

    def close(self) -> None:
        """Have the workers close their connections, and compare clocks for the last time."""
        for leg in self._legs:
            if leg.post.gone:
                continue
            try:
                leg.post.align(FIRST, sure=True)
            except (Gone, Silent):
                continue
            finally:
                leg.post.hand.ask("leave")

    def _alive(self) -> Iterator[_Leg]:
        return (leg for leg in self._legs if not leg.post.gone)

    def _hand_out(self) -> None:
        """Share out what was submitted."""
        if not self._pending:
            return
        together = time.perf_counter() + 1.5 * max(self._calls) + SPARE_S
        shares: dict[int, list[Order]] = {}
        for order in self._pending:
            legs = list(self._alive())
            if not legs:
                raise EngineError(f"every worker was lost, the last one because {self._lost[-1].why}.")
            leg = min(legs, key=lambda leg: len(leg.open))
            due = order.due or together
            leg.open[order.key] = due
            theirs = msgspec.structs.replace(order, due=leg.post.clock.theirs(due))
            shares.setdefault(self._legs.index(leg), []).append(theirs)
        self._pending = []
        for place, orders in shares.items():
            self._legs[place].post.requests += len(orders)
            given = self._legs[place].post.hand.ask("submit", orders)
            given.add_done_callback(partial(self._took, time.perf_counter()))
            self._legs[place].given.append(given)

    def _took(self, since: float, _: Future[Any]) -> None:
        """Note how long a call took."""
        self._calls.append(time.perf_counter() - since)

    def _attend(self, leg: _Leg, now: float) -> None:
        """Ask for what came, compare clocks now and then, and notice who is lost."""
        while leg.given and leg.given[0].done():
            if isinstance(error := leg.given.popleft().exception(), Gone | Silent):
                self._lose(leg, cause(error))  # whether it has the requests then cannot be told
                return
        if now - leg.heard > self._alone_s:
            self._lose(leg, "it did not answer any more")
        elif leg.answer is None and now >= leg.again:
            if now - leg.aligned > ALIGN_S and not self._align(leg, now):
                return
            leg.answer = leg.post.hand.ask("harvest", leg.have, PATIENCE_S)

    def _align(self, leg: _Leg, now: float) -> bool:
        """Compare clocks; False when the worker turns out to be lost."""
        leg.aligned = now
        try:
            leg.post.align(AGAIN)
        except Silent:
            pass
        except Gone as error:
            self._lose(leg, cause(error))
            return False
        return True

    def _hear(self, leg: _Leg) -> None:
        assert leg.answer is not None
        answer, leg.answer = leg.answer, None
        try:
            harvest = answer.result()
        except Silent:
            leg.again = time.perf_counter() + PATIENCE_S
            return
        except Gone as error:
            self._lose(leg, cause(error))
            return
        self._take(leg, harvest)

    def _take(self, leg: _Leg, harvest: Harvest) -> None:
        leg.heard = time.perf_counter()
        new: Sequence[Found] = harvest.found[leg.have - harvest.first :]
        leg.have += len(new)  # what another answer told already is told once
        post = leg.post
        post.note(harvest.lateness)
        leg.lateness = harvest.lateness
        for one in new:
            if not isinstance(one, Exchange):
                key, arrivals = one
                if self._book is not None:
                    self._book.sink(key, _moved(arrivals, post.clock), post.number)
            elif one.key in leg.open:
                exchange = _ours(one, post)
                due = leg.open.pop(one.key)
                post.returned += 1
                post.due_error_s = max(post.due_error_s or 0.0, abs(exchange.due - due))
                self._finished.append(exchange)
        if harvest.fault:
            self._lose(leg, harvest.fault)

    def _lose(self, leg: _Leg, reason: str) -> None:
        """Fail the requests that ``leg`` had."""
        alive = len(list(self._alive()))
        leg.post.gone, leg.answer = True, None
        leg.post.hand.ask("leave")  # it may still hear us
        told = f"worker {leg.post.number} was lost ({reason})"
        self._finished += [
            Exchange(key=key, due=due, error=told, arrivals=joined([]), worker=leg.post.number)
            for key, due in leg.open.items()
        ]
        self._lost.append(
            Lost(
                worker=leg.post.number,
                where=leg.post.hand.where,
                trial=0,
                from_s=max(0.0, leg.heard - self._began),
                requests=len(leg.open),
                in_flight=len(leg.open),
                share=1 / alive,
                why=reason,
            )
        )
        leg.open.clear()


class _Leg:
    """A worker, and what is between it and us.

    Attributes:
        open: the requests that it has, by key, and when they are due on our clock.
        given: calls by which it was given some that it has not confirmed.
        answer: to what it was asked last, while that is open.
        have: number of what it is to tell next.
        again: when to ask it again after a call that it did not answer.
        heard, aligned: when it was heard of, and its clock compared, last.
    """

    def __init__(self, post: Post) -> None:
        self.post = post
        self.open: dict[int, float] = {}
        self.given: deque[Future[Any]] = deque()
        self.answer: Future[Any] | None = None
        self.have = 0
        self.again = 0.0
        self.heard = self.aligned = time.perf_counter()
        self.lateness: Lateness | None = None


class _Watches:
    """What the loops of all workers saw of themselves."""

    def __init__(self, legs: Sequence[_Leg]) -> None:
        self._legs = legs

    def lateness(self) -> Lateness:
        """The worst of them; what can be counted, of all."""
        every = [leg.lateness for leg in self._legs if leg.lateness is not None]

        def worst(name: Callable[[Lateness], float | None]) -> float | None:
            return max((value for one in every if (value := name(one)) is not None), default=None)

        return Lateness(
            wall_s=worst(lambda one: one.wall_s) or 0.0,
            cpu_share=worst(lambda one: one.cpu_share) or 0.0,
            reads=sum(one.reads for one in every),
            stamped=all(one.stamped for one in every if one.reads),
            lag_p50_s=worst(lambda one: one.lag_p50_s),
            lag_p99_s=worst(lambda one: one.lag_p99_s),
            refused=sum(one.refused for one in every),
            full=any(one.full for one in every),
            clock_moved_s=worst(lambda one: one.clock_moved_s) or 0.0,
        )


def _moved(arrivals: Arrivals, clock: Clock) -> Arrivals:
    """``arrivals`` on our clock."""
    if not len(arrivals.at):
        return arrivals
    first = float(arrivals.at[0]) * 1e-9
    by = clock.ours(first) - first + clock.drift * (arrivals.at * 1e-9 - first)
    return msgspec.structs.replace(arrivals, at=arrivals.at + np.rint(by * 1e9).astype(np.int64))


def _ours(exchange: Exchange, post: Post) -> Exchange:
    """``exchange`` on our clock."""

    def moment(at: float) -> float:
        return post.clock.ours(at) if at else 0.0

    return msgspec.structs.replace(
        exchange,
        due=moment(exchange.due),
        sent_at=moment(exchange.sent_at),
        headers_at=moment(exchange.headers_at),
        first_at=moment(exchange.first_at),
        last_at=moment(exchange.last_at),
        answered_at=moment(exchange.answered_at),
        ended_at=moment(exchange.ended_at),
        arrivals=_moved(exchange.arrivals, post.clock),
        worker=post.number,
    )
