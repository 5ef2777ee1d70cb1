"""What runs at each worker: the worker of any load run in a thread of its own, its rows kept until they are fetched."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

import msgspec

from phasewise import __version__
from phasewise.engines.exchange import Order
from phasewise.engines.openai import OpenAIServer
from phasewise.errors import PhasewiseError
from phasewise.isolate.crew.outpost import Harvest, Outpost
from phasewise.isolate.ledger.sheet import Sheet
from phasewise.isolate.workload.plan import Plan
from phasewise.isolate.workload.worker import Done, Worker

ALONE_S = 30.0
"""A worker that nobody asked for this long stops sending: whoever is to stop it is gone."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """How far a worker is.

    Attributes:
        first: number of the first of ``frames``: those of `rows.Frame` that were not acknowledged, in MessagePack.
        sent, ended: requests.
        done: at the end; ``frames`` are then all.
        fault: why its worker failed; empty when it did not.
    """

    first: int
    frames: tuple[bytes, ...]
    sent: int
    ended: int
    done: Done | None
    fault: str


class Member:
    """One worker. Calls come from several threads."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._server: OpenAIServer | None = None
        self._worker: Worker | None = None
        self._outpost: Outpost | None = None
        self._outbox = _Outbox(number)
        self._told = False
        self._asked = time.perf_counter()
        self._progress = (0, 0)
        self._done: Done | None = None
        self._fault = ""

    def version(self) -> str:
        """Of phasewise here."""
        return __version__

    def clock(self) -> float:
        """``perf_counter`` now."""
        return time.perf_counter()

    def connect(self, server: OpenAIServer) -> str:
        """Take the server, and see that it answers here too; why it does not, else empty."""
        self._server = server
        try:
            server.reach()
        except PhasewiseError as error:
            return str(error)
        finally:
            server.close()  # what is sent goes over connections of its own
        return ""

    def prepare(self, share: Plan, trial: int, drain_s: float, most: int) -> None:
        """Make ready to send ``share``."""
        assert self._server is not None
        self._outbox = _Outbox(self._number)
        self._told, self._done, self._fault, self._progress = False, None, "", (0, 0)
        self._asked = time.perf_counter()
        self._worker = Worker(
            self._server,
            share,
            self._outbox,
            trial=trial,
            drain_s=drain_s,
            most=most,
            stopped=self._stopped,
            tell=self._tell,
        )
        self._worker.prepare()

    def begin(self, start: float) -> None:
        """Send from ``start`` (our ``perf_counter`` seconds) on, in a thread; returns at once."""
        self._asked = time.perf_counter()
        threading.Thread(target=self._run, args=(start,), daemon=True).start()

    def report(self, have: int, start: float) -> Report:
        """Give frames from number ``have`` on, those before it have arrived; and move the start to ``start``."""
        self._asked = time.perf_counter()
        if self._worker is not None:
            self._worker.start = start
        done = self._done  # before the frames: with it, they are all
        first, frames = self._outbox.since(have)
        sent, ended = self._progress
        return Report(first=first, frames=frames, sent=sent, ended=ended, done=done, fault=self._fault)

    def stop(self) -> None:
        """Break off what is in the air and send no more."""
        self._told = True

    def open(self) -> None:
        """Make ready to send what is given one by one: see `outpost.Outpost`, as for all that follows."""
        assert self._server is not None
        self._outpost = Outpost(self._server, ALONE_S)

    def submit(self, orders: Sequence[Order]) -> None:
        """Send ``orders`` when they are due."""
        self._at_work().submit(orders)

    def harvest(self, have: int, patience_s: float) -> Harvest:
        """Give what came."""
        return self._at_work().harvest(have, patience_s)

    def cancel(self) -> None:
        """Break off everything."""
        self._at_work().cancel()

    def leave(self) -> None:
        """Send no more."""
        self._at_work().leave()

    def _at_work(self) -> Outpost:
        assert self._outpost is not None
        return self._outpost

    def _run(self, start: float) -> None:
        assert self._worker is not None
        try:
            self._done = self._worker.run(start)
        except Exception as error:  # this thread has nobody else to tell
            self._fault = f"{type(error).__name__}: {error}"

    def _stopped(self) -> bool:
        return self._told or time.perf_counter() - self._asked > ALONE_S

    def _tell(self, sent: int, ended: int) -> None:
        self._progress = sent, ended


class _Outbox(Sheet):
    """Frames that were not acknowledged. Filled by one thread, emptied by another; each step is one of a list."""

    def __init__(self, worker: int) -> None:
        super().__init__(worker)
        self._frames: list[bytes] = []
        self._first = 0

    def push(self) -> None:
        if data := self._filled():
            self._frames.append(data)

    def since(self, have: int) -> tuple[int, tuple[bytes, ...]]:
        del self._frames[: max(0, have - self._first)]
        self._first = max(self._first, have)
        return self._first, tuple(self._frames[:])
