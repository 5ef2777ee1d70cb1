"""One worker as its driver sees it: the clock that it has, its share of a trial, what came back and what is lost."""

from __future__ import annotations

import time
from concurrent.futures import Future
from typing import Any

import msgspec

from phasewise.engines.selfwatch import Lateness
from phasewise.engines.text import clean
from phasewise.isolate.crew.clocks import Clock
from phasewise.isolate.crew.common import common
from phasewise.isolate.crew.hand import Hand
from phasewise.isolate.crew.member import Report
from phasewise.isolate.ledger.schema import Frame
from phasewise.isolate.workload.plan import Plan
from phasewise.isolate.workload.worker import Done
from phasewise.record.crew import Lost, Member

ALIGN_S = 1.0
"""Clocks are compared this often."""

FIRST, AGAIN = 20, 4
"""Round trips of a burst: before and after a trial, when all are idle, and in between."""


class Post:
    """A worker through all trials.

    Attributes:
        gone: lost for good.
        requests, returned: of its shares, and of them those whose rows arrived.
        cpu_share, lag_p99_s, due_error_s: see `record.crew.Member`.
    """

    def __init__(self, number: int, hand: Hand) -> None:
        self.number, self.hand = number, hand
        self.clock = Clock()
        self.gone = False
        self.requests = self.returned = 0
        self.cpu_share: float | None = None
        self.lag_p99_s: float | None = None
        self.due_error_s: float | None = None

    def align(self, trips: int, *, sure: bool = False) -> None:
        """Compare clocks by a burst of round trips.

        Raises:
            Gone, Silent: see `Hand.trip`.
        """
        self.clock.add([self.hand.trip() for _ in range(trips)], sure=sure)

    def note(self, seen: Lateness) -> None:
        """Keep the worst that it saw of itself."""
        self.cpu_share = max(self.cpu_share or 0.0, seen.cpu_share)
        if seen.lag_p99_s is not None:
            self.lag_p99_s = max(self.lag_p99_s or 0.0, seen.lag_p99_s)

    def member(self) -> Member:
        """For the record."""
        return Member(
            worker=self.number,
            where=self.hand.where,
            requests=self.requests,
            returned=self.returned,
            cpu_share=self.cpu_share,
            lag_p99_s=self.lag_p99_s,
            clock_error_s=self.clock.error,
            round_trip_s=self.clock.round_trip,
            drift=self.clock.drift,
            due_error_s=self.due_error_s,
        )


class Shift:
    """A worker's part of one trial.

    Attributes:
        running: it may still report.
        answer: to what it was asked last, first to begin and then for reports, while that is open.
        asked, heard, aligned: when it was asked last, last answered, and its clock was last compared, ``perf_counter``.
        sent, ended: requests, as it last said.
        done: how its share ended, when it said so.
    """

    def __init__(self, post: Post, share: Plan, trial: int) -> None:
        self.post, self.share, self.trial = post, share, trial
        self.running = False
        self.answer: Future[Any] | None = None
        self.asked = self.heard = self.aligned = 0.0
        self.sent = self.ended = 0
        self.done: Done | None = None
        self._start = self._zero = 0.0
        self._have = self._returned = 0
        self._due = {} if share.due_s is None else dict(zip(share.keys.tolist(), share.due_s.tolist(), strict=True))
        self._decoder = msgspec.msgpack.Decoder(Frame)

    def begin(self, start: float) -> None:
        """Have it start at our ``start``."""
        self._start, self._zero = start, self.post.clock.theirs(start)
        self.post.requests += len(self.share)
        self.heard, self.running = start, True
        self.answer = self.post.hand.ask("begin", self._zero)

    def ask(self) -> None:
        """Ask for what is new. With it goes where the start is by what is known of its clock now."""
        self.asked = time.perf_counter()
        start = self.post.clock.theirs(self.asked) - (self.asked - self._start)
        self.answer = self.post.hand.ask("report", self._have, start)

    def hear(self, report: Report) -> list[Frame]:
        """Take a report; what it brought, on our clock."""
        self.heard = time.perf_counter()
        self.sent, self.ended = report.sent, report.ended
        new = report.frames[self._have - report.first :]
        self._have = report.first + len(report.frames)
        frames = [common(self._decoder.decode(data), self._ours) for data in new]
        for frame in frames:
            self._count(frame)
        if report.done is not None:
            self.done, self.running = report.done, False
            self.post.note(report.done.lateness)
        return frames

    def lost(self, plan: Plan, why: str) -> Lost:
        """What is missing of ``plan``, all workers' requests, without it: nothing where it had not begun."""
        begun, self.running = bool(self._start), False
        missing = len(self.share) - self._returned if begun else 0
        from_s = max(0.0, self.heard - self._start)
        return Lost(
            worker=self.post.number,
            where=self.post.hand.where,
            trial=self.trial,
            from_s=from_s,
            requests=missing,
            in_flight=min(missing, max(0, self.sent - self._returned)),
            share=_part(self.share, plan, from_s) if begun else 0.0,
            why=why,
        )

    def _ours(self, at: float) -> float:
        return self.post.clock.ours(self._zero + at) - self._start

    def _count(self, frame: Frame) -> None:
        post, rows = self.post, frame.requests
        self._returned += len(rows)
        post.returned += len(rows)
        if self._due and rows:
            worst = max(abs(row.due_s - self._due[row.request]) for row in rows)
            post.due_error_s = max(post.due_error_s or 0.0, worst)


def cause(error: Exception) -> str:
    """What a worker that is lost died of, in a few words."""
    return clean(str(error), 300) or "it did not answer"


def _part(share: Plan, plan: Plan, from_s: float) -> float:
    """What part of the load ``share`` is from ``from_s`` on: of the requests due after that, or of the users."""
    if plan.due_s is None or share.due_s is None:
        mine, all_of_them = (len({int(key) % plan.users for key in one.keys.tolist()}) for one in (share, plan))
    else:
        mine, all_of_them = (int((one.due_s > from_s).sum()) for one in (share, plan) if one.due_s is not None)
    return mine / all_of_them if all_of_them else 0.0
