"""What stands between an answer and its connection: the faults of proxies, of TCP and of threads that write."""

from __future__ import annotations

import asyncio
import time
from collections import deque

from phasewise.engines.simulated.connection import Connection
from phasewise.engines.simulated.plan import Plan


class Writer:
    """The one thread that writes for all connections, each write taking ``write_s`` of its time."""

    def __init__(self, write_s: float) -> None:
        self._write_s = write_s
        self._free_at = 0.0

    def slot(self, at: float) -> float:
        """When a write that is wanted ``at`` (monotonic seconds) is done."""
        self._free_at = max(at, self._free_at) + self._write_s
        return self._free_at


class Outbox:
    """The way of one response to its client. Without planted faults everything is written at once."""

    def __init__(self, plan: Plan, connection: Connection, writer: Writer, *, streamed: bool) -> None:
        self._plan = plan
        self._connection = connection
        self._writer = writer
        self._streamed = streamed
        self._held = bytearray()
        self._replayed: list[bytes] = []
        self._queue: deque[tuple[float, bytes, bool]] = deque()
        self._after = 0.0
        self._begun = False

    def send(self, data: bytes, *, tokens: bool = False, last: bool = False) -> None:
        """Send ``data``, which holds ``tokens`` or not; with the ``last`` of it the response is complete."""
        now = time.monotonic()
        if self._plan.replay_s and self._streamed and (tokens or last):
            self._replayed.append(data)
            if last:
                for number, piece in enumerate(self._replayed, start=1):
                    due = now + (number - 1) * self._plan.replay_s
                    self._buffer(due, piece, tokens=True, last=number == len(self._replayed))
            return
        self._buffer(now, data, tokens=tokens, last=last)

    def close(self) -> None:
        """Write what is held back and close the connection."""
        while self._queue:
            self._connection.write(self._queue.popleft()[1])
        self._connection.write(bytes(self._held))
        self._connection.close()

    def _buffer(self, at: float, data: bytes, *, tokens: bool, last: bool) -> None:
        if self._plan.buffer and self._streamed:
            self._held += data
            if not last and len(self._held) < self._plan.buffer:
                return
            data = bytes(self._held)
            self._held.clear()
        self._put(at, data, tokens=tokens, last=last)

    def _put(self, at: float, data: bytes, *, tokens: bool, last: bool) -> None:
        if tokens and not self._begun:
            self._begun = True
            if self._connection.served > 1:
                at += self._plan.ack_delay_s
        if self._plan.write_s and data:
            at = self._writer.slot(at)
        # What follows a piece that is held up waits with it.
        self._after = at = max(at, self._after)
        if at <= time.monotonic() and not self._queue:
            self._write(data, last)
            return
        self._queue.append((at, data, last))
        if len(self._queue) == 1:
            self._wait()

    def _wait(self) -> None:
        asyncio.get_running_loop().call_at(self._queue[0][0], self._due)

    def _due(self) -> None:
        now = time.monotonic()
        while self._queue and self._queue[0][0] <= now:
            _, data, last = self._queue.popleft()
            self._write(data, last)
        if self._queue:
            self._wait()

    def _write(self, data: bytes, last: bool) -> None:
        self._connection.write(data)
        if last:
            self._connection.done()
