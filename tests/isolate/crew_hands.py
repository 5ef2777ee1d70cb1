"""Workers without Ray: one that plays its part by a script on a clock of its own, one that is real in a thread."""

from __future__ import annotations

import pickle
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import msgspec
import numpy as np

from phasewise import __version__
from phasewise.engines.exchange import Arrivals, Exchange, Order
from phasewise.engines.selfwatch import Lateness
from phasewise.isolate.crew.clocks import Trip
from phasewise.isolate.crew.hand import Gone, Hand, Silent
from phasewise.isolate.crew.member import Member, Report
from phasewise.isolate.crew.outpost import Found, Harvest
from phasewise.isolate.ledger.schema import Chunks, Frame, RequestRow
from phasewise.isolate.workload.plan import Plan
from phasewise.isolate.workload.worker import Done

TAKES_S = 0.1
"""What each scripted request takes."""

PERFECT = Lateness(wall_s=1, cpu_share=0.1, reads=1, stamped=True, lag_p50_s=None, lag_p99_s=1e-4)


class Scripted(Hand):
    """Sends by its own clock, which began ``offset`` ago and is ``drift`` slow; answers until ``dies_at``.

    ``deaf`` is a stretch (seconds from its start) in which it goes on and nobody hears it: what it was asked then was
    heard by it, and its answer is lost. ``sent`` holds, per request, when it was really sent, on our clock.
    """

    def __init__(
        self,
        number: int,
        *,
        offset: float = 0.0,
        drift: float = 0.0,
        dies_at: float = float("inf"),
        deaf: tuple[float, float] = (0.0, 0.0),
        version: str = __version__,
        refused: str = "",
        fault: str = "",
    ) -> None:
        self.where = f"10.0.0.{number}"
        self.number, self.offset, self.drift, self.dies_at, self.deaf = number, offset, drift, dies_at, deaf
        self.told_version, self.refused, self.fault = version, refused, fault
        self.sent: dict[int, float] = {}
        self.stopped = False
        self.asked: list[str] = []
        self.starts: list[float] = []
        self._share: Plan | None = None
        self._zero = 0.0
        self._begun_at = float("inf")
        self._frames: list[bytes] = []
        self._first = 0
        self._given: set[int] = set()

    def theirs(self, ours: float) -> float:
        return (ours - self.offset) / (1 + self.drift)

    def ours(self, theirs: float) -> float:
        return theirs * (1 + self.drift) + self.offset

    def trip(self) -> Trip:
        self._alive()
        before = time.perf_counter()
        time.sleep(1e-4)
        there = self.theirs(time.perf_counter())
        return Trip(before, there, time.perf_counter())

    def ask(self, method: str, *arguments: Any) -> Future[Any]:
        self.asked.append(method)
        answer: Future[Any] = Future()
        try:
            self._dead()
            result = getattr(self, f"on_{method}")(*arguments)
            self._alive()
            answer.set_result(result)
        except (Gone, Silent) as error:
            answer.set_exception(error)
        return answer

    def _dead(self) -> None:
        if time.perf_counter() - self._begun_at > self.dies_at:
            raise Gone("its node was lost")

    def _alive(self) -> None:
        self._dead()
        since = time.perf_counter() - self._begun_at
        if self.deaf[0] < since < self.deaf[1]:
            raise Silent("unavailable")

    def on_version(self) -> str:
        return self.told_version

    def on_connect(self, server: object) -> str:
        return self.refused

    def on_prepare(self, share: Plan, trial: int, drain_s: float, most: int) -> None:
        if self.dies_at < 0:
            raise Gone("its node was lost")
        self._share, self._trial, self.most = share, trial, most
        self._frames, self._first, self._given, self.stopped = [], 0, set(), False

    def on_begin(self, start: float) -> None:
        self._zero = start
        self.starts = [start]
        self._begun_at = self.ours(start)

    def on_stop(self) -> None:
        self.stopped = True

    def on_report(self, have: int, start: float) -> Report:
        assert self._share is not None
        del self._frames[: max(0, have - self._first)]
        self._first = max(self._first, have)
        if time.perf_counter() - self._begun_at > 0.0:
            self._send(self.starts[-1])
        self.starts.append(start)
        over = len(self._given) == len(self._share) or self.stopped
        done = None
        if over:
            unsent = len(self._share) - len(self._given)
            ending = "stopped" if self.stopped else "complete"
            done = Done(worker=self.number, ending=ending, why="", sent=len(self._given), failed=0, unsent=unsent,
                        lateness=PERFECT)  # fmt: skip
        return Report(
            first=self._first,
            frames=tuple(self._frames),
            sent=len(self._given) + 2,
            ended=len(self._given),
            done=done,
            fault=self.fault if self._given and self.fault else "",
        )

    def _send(self, start: float) -> None:
        """End what is due, by the start that it was told last: two frames."""
        share = self._share
        assert share is not None
        now = self.theirs(time.perf_counter())
        rows = []
        for key, due in zip(share.keys.tolist(), _times(share), strict=True):
            at = start + due
            if key not in self._given and at + TAKES_S < now:
                self._given.add(key)
                self.sent[key] = self.ours(at)
                rows.append(_row(key, self._trial, self.number, at - self._zero))
        for part in (rows[::2], rows[1::2]):
            if part:
                self._frames.append(msgspec.msgpack.encode(Frame(requests=part, chunks=[_tokens(part)])))


def _times(share: Plan) -> list[float]:
    return (np.arange(len(share)) * 0.02).tolist() if share.due_s is None else share.due_s.tolist()


def _row(key: int, trial: int, worker: int, due: float) -> RequestRow:
    return RequestRow(
        trial=trial, request=key, phase=None, worker=worker, user=None, due_s=due, connect_s=0.0, sent_s=due,
        ttft_s=0.05,
        answer_ttft_s=0.05, tpot_s=0.01, last_token_s=due + TAKES_S, ended_s=due + TAKES_S, prompt_tokens_planned=1,
        answer_tokens_planned=1, prompt_tokens=1, completion_tokens=1, cached_tokens=None, first_read_tokens=1,
        status=200, finish_reason="length", error=None, streamed=True, stamped=True, received_bytes=1,
    )  # fmt: skip


def _tokens(rows: list[RequestRow]) -> Chunks:
    """A token of each, when it ended."""
    many = len(rows)
    return Chunks(
        rows[0].trial,
        rows[0].worker,
        np.array([row.request for row in rows], np.int64).tobytes(),
        np.array([row.ended_s for row in rows], np.float64).tobytes(),
        np.zeros(many, np.int32).tobytes(),
        np.ones(many, np.int32).tobytes(),
        np.ones(many, np.uint8).tobytes(),
    )


class Threaded(Hand):
    """A real member, called from other threads as Ray calls an actor's."""

    def __init__(self, number: int) -> None:
        self.where = "this process"
        self._member = Member(number)
        self._calls = ThreadPoolExecutor(2)

    def ask(self, method: str, *arguments: Any) -> Future[Any]:
        return self._calls.submit(getattr(self._member, method), *pickle.loads(pickle.dumps(arguments)))

    def trip(self) -> Trip:
        before = time.perf_counter()
        there = self.ask("clock").result(1)
        return Trip(before, there, time.perf_counter())

    def end(self) -> None:
        self._calls.shutdown()


class Skewed(Threaded):
    """A real member whose clock is another: what it is told and tells in between is moved.

    ``dies`` ends it for good; while ``deaf``, it goes on and nobody hears its answers.
    """

    def __init__(self, number: int, *, offset: float = 0.0, drift: float = 0.0) -> None:
        super().__init__(number)
        self.where = f"10.0.0.{number}"
        self.offset, self.drift = offset, drift
        self.dead = self.deaf = False
        self.orders: list[Order] = []

    def theirs(self, ours: float) -> float:
        return (ours - self.offset) / (1 + self.drift) if ours else 0.0

    def ours(self, theirs: float) -> float:
        return theirs * (1 + self.drift) + self.offset

    def dies(self) -> None:
        self.dead = True
        super().ask("cancel").result(5)

    def trip(self) -> Trip:
        if self.dead:
            raise Gone("its node was lost")
        one = super().trip()
        return one._replace(there=self.theirs(one.there))

    def ask(self, method: str, *arguments: Any) -> Future[Any]:
        answer: Future[Any] = Future()
        if self.dead:
            answer.set_exception(Gone("its node was lost"))
            return answer
        if method == "submit":
            self.orders += arguments[0]
            arguments = ([msgspec.structs.replace(one, due=self.ours(one.due)) for one in arguments[0]],)
        super().ask(method, *arguments).add_done_callback(lambda real: self._answer(answer, real))
        return answer

    def _answer(self, answer: Future[Any], real: Future[Any]) -> None:
        if self.dead:
            answer.set_exception(Gone("its node was lost"))
        elif self.deaf:
            answer.set_exception(Silent("unavailable"))
        elif error := real.exception():
            answer.set_exception(error)
        else:
            answer.set_result(self._told(real.result()))

    def _told(self, result: Any) -> Any:
        if not isinstance(result, Harvest):
            return result
        return pickle.loads(pickle.dumps(result._replace(found=tuple(map(self._found, result.found)))))

    def _found(self, one: Found) -> Found:
        if not isinstance(one, Exchange):
            return one[0], self._arrivals(one[1])
        names = ("due", "sent_at", "headers_at", "first_at", "last_at", "answered_at", "ended_at")
        moved = {name: self.theirs(getattr(one, name)) for name in names}
        return msgspec.structs.replace(one, **moved, arrivals=self._arrivals(one.arrivals))

    def _arrivals(self, arrivals: Arrivals) -> Arrivals:
        at = (arrivals.at * 1e-9 - self.offset) / (1 + self.drift)
        return msgspec.structs.replace(arrivals, at=np.rint(at * 1e9).astype(np.int64))
