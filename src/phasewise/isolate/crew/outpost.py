"""What sends at a worker whose driver decides request by request: a loop in a thread of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import NamedTuple

from phasewise.engines.exchange import Arrivals, Exchange, Order
from phasewise.engines.openai import OpenAIServer
from phasewise.engines.selfwatch import Lateness

SLICE_S = 2e-3
"""While requests are in the air, new ones wait for no longer than this until the loop has them."""

_IDLE_S = 1.0

Found = Exchange | tuple[int, Arrivals]
"""A request that is over, or events of one that is not, with its key."""


class Harvest(NamedTuple):
    """What came at a worker, by its own clock.

    Attributes:
        first: number of the first of ``found``, which begins with what was not acknowledged.
        lateness: what its loop saw of itself.
        fault: why its thread ended; empty while it runs.
    """

    first: int
    found: tuple[Found, ...]
    lateness: Lateness
    fault: str


class Outpost:
    """Sends what it is given; calls come from several threads.

    Args:
        server: what to send to.
        alone_s: when nobody asked for so long, everything is broken off: whoever wanted it is gone.
    """

    def __init__(self, server: OpenAIServer, alone_s: float) -> None:
        self._loop = server.loop(sink=self._sink, keep=True)
        self._alone_s = alone_s
        self._news = threading.Condition()
        self._orders: list[Order] = []
        self._found: list[Found] = []
        self._first = 0
        self._ended = False
        self._cancelled = self._cancelling = 0
        self._leaving = False
        self._fault = ""
        self._asked = time.perf_counter()
        threading.Thread(target=self._run, daemon=True).start()

    def submit(self, orders: Sequence[Order]) -> None:
        """Send ``orders`` when they are due."""
        with self._news:
            self._asked = time.perf_counter()
            self._orders += orders
            self._news.notify_all()

    def harvest(self, have: int, patience_s: float) -> Harvest:
        """Give what came from number ``have`` on, what is before it has arrived; wait a while for a request to end."""
        with self._news:
            self._asked = time.perf_counter()
            del self._found[: max(0, have - self._first)]
            self._first = max(self._first, have)
            self._ended = any(isinstance(one, Exchange) for one in self._found)
            self._news.wait_for(lambda: self._ended or self._fault, patience_s)
            return Harvest(self._first, tuple(self._found), self._loop.watch.lateness(), self._fault)

    def cancel(self) -> None:
        """Break off everything; what was in the air comes with the next harvest. Returns when that is done."""
        with self._news:
            self._asked = time.perf_counter()
            self._cancelling += 1
            mine = self._cancelling
            self._news.notify_all()
            self._news.wait_for(lambda: self._cancelled >= mine or self._fault)

    def leave(self) -> None:
        """Send no more."""
        with self._news:
            self._leaving = True
            self._news.notify_all()

    def _run(self) -> None:
        try:
            with self._loop:
                while not self._leaving:
                    self._turn()
        except Exception as error:  # this thread has nobody else to tell
            with self._news:
                self._fault = f"{type(error).__name__}: {error}"
                self._news.notify_all()

    def _turn(self) -> None:
        loop, news = self._loop, self._news
        with news:
            if not (loop.in_flight or loop.waiting):
                news.wait_for(lambda: self._orders or self._leaving or self._cancelling > self._cancelled, _IDLE_S)
            orders, self._orders = self._orders, []
            cancelling = self._cancelling
        told = cancelling > self._cancelled
        if told or time.perf_counter() - self._asked > self._alone_s:
            done = loop.cancel()
        else:
            for order in orders:
                loop.submit(order)
            done = loop.step(time.perf_counter() + SLICE_S)
        with news:
            self._found += done
            self._ended = self._ended or bool(done)
            self._cancelled = cancelling
            if done or told:
                news.notify_all()

    def _sink(self, key: int, arrivals: Arrivals) -> None:
        with self._news:
            self._found.append((key, arrivals))
