"""Steps on the real clock: each ends at its absolute deadline, so that errors do not add up."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import selectors
import time

from phasewise.engines.simulated.scheduler import Request, Scheduler, Step

SPIN_S = 300e-6
"""The last stretch before a deadline is spun: a sleep of milliseconds wakes 50 to 250 µs late."""

APPROACH_S = 10e-3
"""Longer sleeps are taken in two: the kernel may stretch a sleep by 0.1%."""


def go_first() -> None:
    """Let this process run before others where we may ask for it: on busy cores it is otherwise preempted for 2-5 ms.

    It sleeps nearly all the time, so that others lose little.
    """
    with contextlib.suppress(OSError, AttributeError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))


class PreciseSelector(selectors.DefaultSelector):
    """asyncio's selector with timeouts to the microsecond; epoll alone rounds them up to milliseconds."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait for events, as selectors.BaseSelector.select."""
        if timeout is not None and timeout > 0:
            select.select([self.fileno()], [], [], timeout)
            timeout = 0
        return super().select(timeout)


class Pacer:
    """Runs the scheduler's steps. Times are ``time.monotonic()`` seconds, which on Linux is perf_counter's clock."""

    def __init__(self, loop: asyncio.AbstractEventLoop, scheduler: Scheduler) -> None:
        self._loop = loop
        self._scheduler = scheduler
        self._step: Step | None = None
        self._free_at = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def submit(self, request: Request) -> None:
        """Hand ``request`` to the engine; an idle engine began with it when it arrived."""
        self._scheduler.submit(request)
        if self._step is None:
            self._begin(max(self._free_at, request.arrived))

    def wake(self) -> None:
        """Let the other client's requests start to arrive."""
        if self._step is None:
            self._begin(max(self._free_at, time.monotonic()))

    def _begin(self, start: float) -> None:
        if self._timer:
            self._timer.cancel()
        self._step = step = self._scheduler.begin(start)
        if step is not None:
            for emission in step.emissions:
                emission.request.sink.prepare(emission.tokens, emission.last)
            self._approach(step)
        elif (arrival := self._scheduler.next_arrival()) is not None:
            self._timer = self._loop.call_at(arrival, self._begin, arrival)

    def _approach(self, step: Step) -> None:
        left = step.due - time.monotonic()
        if left > 2 * APPROACH_S:
            self._timer = self._loop.call_at(step.due - APPROACH_S, self._approach, step)
        else:
            self._timer = self._loop.call_at(step.due - SPIN_S, self._end, step)

    def _end(self, step: Step) -> None:
        while time.monotonic() < step.due:
            pass
        for emission in step.emissions:
            emission.request.sink.flush(step.due)
        self._scheduler.finish(step)
        self._free_at = step.due
        self._begin(step.due)
