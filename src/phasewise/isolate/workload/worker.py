"""One worker: it runs its share of a plan against a server, in one thread, and hands on what it sees."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Literal, Protocol

import msgspec

from phasewise.engines.base import Piece, Prompt
from phasewise.engines.exchange import Exchange, Order
from phasewise.engines.flight import Sink
from phasewise.engines.loop import BROKEN_OFF, Loop
from phasewise.engines.selfwatch import Lateness
from phasewise.isolate.ledger.schema import ENDED_BY_US, Asked
from phasewise.isolate.ledger.sheet import Sheet
from phasewise.isolate.workload.plan import Plan

AHEAD_BYTES, AHEAD = 16 << 20, 2000
"""Bytes of bodies, and requests, that are made before they are due; later ones between looks at the sockets."""

AHEAD_S = 1.0
"""What is due within this is made, whatever it weighs, and given to the loop: until then the start may be moved."""

_MAKE_S, _LOOK_S = 1e-3, 0.02
"""At most so long a stretch of making requests, and of listening, before the other has its turn."""

_PUSH_S, _TELL_S = 0.05, 0.1
"""Rows are handed on, and progress is told, this often."""

MOST_IN_A_ROW = 50
"""Requests that may fail one after the other before the worker gives up: no server is hammered with what it refuses."""

_NOBODY = -1
"""Whose the requests of an open loop are."""

Ending = Literal["complete", "stopped", "failing", "unfinished"]
"""All ended; told to stop; too many failed in a row; some had not ended when the time for that was over."""


class Server(Protocol):
    """What a worker needs of an engine."""

    def pieced(self, pieces: Sequence[Piece]) -> Prompt:
        """A prompt of pieces."""

    def order(self, key: int, prompt: Prompt, max_tokens: int) -> Order:
        """A request."""

    def loop(self, *, most: int, sink: Sink | None) -> Loop:
        """Many at once."""


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker says besides its rows.

    Attributes:
        worker: which.
        ending: how it ended, and ``why`` in words.
        sent, failed, unsent: requests that were sent, that failed, and of its share that never were sent.
        lateness: what its loop saw of itself.
    """

    worker: int
    ending: Ending
    why: str
    sent: int
    failed: int
    unsent: int
    lateness: Lateness


class Worker:
    """Runs ``plan``, which is its share already.

    Attributes:
        start: ``perf_counter`` second of the plan's zero; moved while it runs, it moves what is due in over a second.

    Args:
        server: what to send to.
        plan: what to send.
        book: where rows go.
        trial: their number.
        drain_s: seconds that what is in the air may take after the last was sent.
        most: connections at once.
        stopped: asked often; True ends it, and what is in the air is broken off.
        tell: told now and then how many were sent and how many ended.
    """

    def __init__(
        self,
        server: Server,
        plan: Plan,
        book: Sheet,
        *,
        trial: int = 0,
        drain_s: float = 60.0,
        most: int = 4096,
        stopped: Callable[[], bool] = lambda: False,
        tell: Callable[[int, int], None] = lambda sent, ended: None,
    ) -> None:
        self._server, self._plan, self._book = server, plan, book
        self._trial, self._drain, self._stopped, self._tell = trial, drain_s, stopped, tell
        self._loop = server.loop(most=most, sink=book.sink)
        self._places = {int(key): place for place, key in enumerate(plan.keys.tolist())}
        self._sizes: dict[int, int] = {}
        self._unmade = deque(range(len(plan)))
        self._ready: dict[int, deque[Order]] = {}
        self._idle: dict[int, float] = {}
        self._bytes = self._ended = self._failed = self._in_a_row = 0
        self.start = 0.0
        self._said = ""

    @property
    def _room(self) -> bool:
        """Whether more requests may lie ready."""
        return self._bytes < AHEAD_BYTES and len(self._sizes) < AHEAD

    def prepare(self) -> None:
        """Make the first requests, as many as may lie ready. Costs time, so it comes before the start is agreed on."""
        while self._unmade and self._room and not self._stopped():
            self._make()

    def run(self, start: float) -> Done:
        """Send everything when it is due, counted from ``start`` (``perf_counter`` seconds), and see it all end."""
        self.start = start
        self._book.begin(self._trial, start)
        if self._plan.users:
            users = {int(key) % self._plan.users for key in self._plan.keys.tolist()}
            self._idle = dict.fromkeys(sorted(users), start)
        ending = self._drive()
        for exchange in self._loop.cancel():
            self._take(
                msgspec.structs.replace(exchange, error=_why(ending)) if exchange.error == BROKEN_OFF else exchange
            )
        self._book.push()
        self._loop.close()
        unsent = len(self._plan) - self._ended
        return Done(
            worker=self._book.worker,
            ending=ending,
            why="" if ending == "complete" else f"{_why(ending)}{': ' + self._said if ending == 'failing' else ''}",
            sent=self._ended,
            failed=self._failed,
            unsent=unsent,
            lateness=self._loop.watch.lateness(),
        )

    def _drive(self) -> Ending:
        end = self.start + self._plan.seconds
        last = end if self._plan.due_s is None or not len(self._plan) else self.start + float(self._plan.due_s[-1])
        told = pushed = 0.0
        while True:
            now = time.perf_counter()
            if self._stopped():
                return "stopped"
            if self._in_a_row >= MOST_IN_A_ROW:
                return "failing"
            if self._over(now, end):
                return "complete"
            if now > last + self._drain:
                return "unfinished"
            busy = self._feed(now, end)
            for exchange in self._loop.step(time.perf_counter() + (_MAKE_S if busy else _LOOK_S)):
                self._take(exchange)
            if now - pushed > _PUSH_S:
                self._book.push()
                pushed = now
            if now - told > _TELL_S:
                self._tell(self._ended + self._loop.in_flight, self._ended)
                told = now

    def _over(self, now: float, end: float) -> bool:
        if self._loop.in_flight or self._loop.waiting:
            return False
        return not self._unmade and not any(self._ready.values()) if not self._plan.users else not self._next(now, end)

    def _next(self, now: float, end: float) -> bool:
        """Whether any user still has something to send, and time to."""
        return now < end and (bool(self._unmade) or any(self._ready.get(user) for user in self._idle))

    def _feed(self, now: float, end: float) -> bool:
        """Send what is next, and make requests for a moment; True when there is more to be made."""
        if not self._plan.users:
            self._send(now)
        elif now < end:
            for user, since in list(self._idle.items()):
                if orders := self._ready.get(user):
                    del self._idle[user]
                    self._loop.submit(msgspec.structs.replace(orders.popleft(), due=since))
        while self._unmade and self._wanted(now):
            self._make()
            if time.perf_counter() - now > _MAKE_S:
                return True
        return False

    def _wanted(self, now: float) -> bool:
        """Whether the next request should be made now."""
        if self._room:
            return True
        place = self._unmade[0]
        if self._plan.due_s is not None:
            return bool(self.start + self._plan.due_s[place] < now + AHEAD_S)
        return not self._ready.get(self._plan.user(place) or 0)

    def _make(self) -> None:
        place = self._unmade.popleft()
        plan, key = self._plan, int(self._plan.keys[place])
        if plan.texts:
            prompt = Prompt(payload=plan.texts[place], tokens=int(plan.prompt[place]), exact=False)
        else:
            prompt = self._server.pieced(plan.pieces(place))
        order = self._server.order(key, prompt, int(plan.answer[place]))
        self._sizes[key] = len(order.body)
        self._bytes += len(order.body)
        user = plan.user(place)
        self._ready.setdefault(_NOBODY if user is None else user, deque()).append(order)

    def _send(self, now: float) -> None:
        """Give the loop what is soon due; it sends it to the point."""
        orders = self._ready.get(_NOBODY, ())
        while orders and (due := self._due(orders[0])) < now + AHEAD_S:
            self._loop.submit(msgspec.structs.replace(orders.popleft(), due=due))

    def _due(self, order: Order) -> float:
        assert self._plan.due_s is not None
        return self.start + float(self._plan.due_s[self._places[order.key]])

    def _take(self, exchange: Exchange) -> None:
        place = self._places[exchange.key]
        user = self._plan.user(place)
        self._bytes -= self._sizes.pop(exchange.key, 0)
        asked = Asked(
            self._trial, self._book.worker, user, int(self._plan.prompt[place]), int(self._plan.answer[place])
        )
        self._book.ended(exchange, asked)
        self._ended += 1
        if exchange.error:
            self._failed += 1
            self._in_a_row += 1
            self._said = exchange.error
        else:
            self._in_a_row = 0
        if user is not None:
            self._idle[user] = exchange.ended_at or time.perf_counter()


def _why(ending: Ending) -> str:
    return {
        "stopped": f"{ENDED_BY_US}: the run was stopped",
        "failing": f"{MOST_IN_A_ROW} requests failed one after the other",
        "unfinished": f"{ENDED_BY_US}: not over when the time to finish was (--drain)",
        "complete": "",
    }[ending]
