"""The answer to one request as it comes in, each read stamped before it is parsed."""

from __future__ import annotations

import contextlib
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from phasewise.engines import stamps
from phasewise.engines.message import Message
from phasewise.errors import BrokenStream, EngineError, Stalled, Unreachable

MAX_BODY = 16 * 2**20
"""Bytes of a page that is read whole."""

MAX_STREAM = 256 * 2**20
"""Bytes of a streamed answer, framing included."""

DRAIN_S = 1.0
DRAIN_BYTES = 64 * 2**10
"""What may follow the last event of a stream; a server that sends more, or for longer, loses the connection."""


class Read(NamedTuple):
    """Body bytes of one socket read: ``at`` by the clock of ``time.perf_counter()``, ``number`` counts reads."""

    at: float
    number: int
    data: bytes


class Silence(Exception):
    """The connection ended before the first byte of an answer."""


class Reply:
    """The answer to one request, as far as it has come.

    Attributes:
        sent_at: right before the first byte of the request was written.
        headers_at: arrival of the read that completed the head.
        stamped: whether times are the kernel's.
        received: bytes.
    """

    def __init__(
        self, opened: socket.socket, buffer: bytearray, wait_s: float, where: str, close: Callable[[], None]
    ) -> None:
        self.sent_at = 0.0
        self.headers_at = 0.0
        self._where = where
        self._close = close
        self._socket = opened
        self._buffer = buffer
        self._view = memoryview(buffer)
        self._wait_s = wait_s
        self._until = 0.0
        self._number = 0
        self.received = 0
        self.stamped = False
        self._message = Message(where)
        self._broken: EngineError | None = None
        self._plain = not isinstance(opened, ssl.SSLSocket)
        self._offset = stamps.offset() if self._plain else 0

    @property
    def status(self) -> int:
        """HTTP status code."""
        return self._message.status

    @property
    def headers(self) -> dict[str, str]:
        """By lower-case name."""
        return self._message.headers

    @property
    def complete(self) -> bool:
        """Whether the whole body has come."""
        return self._message.complete

    def start(self, message: bytes) -> None:
        """Send ``message`` and read up to the end of the head."""
        self.sent_at = time.perf_counter()
        self._until = self.sent_at + self._wait_s
        try:
            self._socket.sendall(message)
        except TimeoutError:
            raise self._stalled() from None
        except OSError:
            # A server that refuses early (401, 413) answers and closes before it has read everything: read on.
            pass
        while not self._message.has_head:
            at = self._receive()
            if at is None:
                if self.received:
                    raise Unreachable(f"{self._where} broke off inside the head of its answer: look at its log.")
                raise Silence("end of stream")
            if self._broken is not None and not self._message.has_head:
                raise self._broken
            self.headers_at = at

    def progress(self) -> None:
        """Start the stall clock again; keep-alive comments are no progress, events are."""
        self._until = time.perf_counter() + self._wait_s

    def reads(self, limit: int = MAX_STREAM) -> Iterator[Read]:
        """Yield body bytes read by read until the body ends; what came with the head is the first.

        Raises:
            Stalled: ``wait_s`` seconds went by without a call of ``progress``.
            BrokenStream: the body ended early or grew over ``limit`` bytes.
        """
        at: float | None = self.headers_at
        while True:
            if at is None:
                self._ended()
                return
            if data := self._message.take():
                yield Read(at, self._number, data)
            if self._broken is not None:
                raise self._broken
            if self.complete:
                if not self._message.keep:
                    self._close()
                return
            if self.received > limit:
                self._close()
                raise BrokenStream(f"{self._where} sends an answer without end: this is no answer of a model.")
            at = self._receive()

    def body(self, limit: int = MAX_BODY) -> bytes:
        """Read the whole body."""
        return b"".join(read.data for read in self.reads(limit))

    def drain(self) -> None:
        """Read to the end after the last event, so that the connection can be used again; what comes is not kept.

        After ``DRAIN_S`` seconds or ``DRAIN_BYTES`` bytes it is closed instead: the answer is here already.
        """
        self._until = time.perf_counter() + DRAIN_S
        most = self.received + DRAIN_BYTES
        with contextlib.suppress(EngineError):
            while not self.complete and self._broken is None and self.received < most:
                # Before the limit, always: at it, _receive gives up.
                self._socket.settimeout(max(1e-3, self._until - time.perf_counter()))
                if self._receive() is None:
                    break
                self._message.take()
        self._message.take()
        if not (self.complete and self._message.keep):
            self._close()

    def abandon(self) -> None:
        """Leave the rest of the body unread and close the connection."""
        if not self.complete:
            self._close()

    def _receive(self) -> float | None:
        """Read once; return when it arrived, or None at the end of the stream."""
        try:
            size, at = self._read()
        except TimeoutError:
            self._close()
            raise self._stalled() from None
        except OSError:
            return None
        if size == 0:
            return None
        self._number += 1
        self.received += size
        try:
            self._message.feed(self._view[:size])
        except EngineError as error:
            # What came before it in the same read is given first: the answer may be in it.
            self._close()
            self._broken = error
            return at
        if self._message.astray:
            self._close()
        if at > self._until and not self.complete:
            self._close()
            raise self._stalled()
        return at

    def _read(self) -> tuple[int, float]:
        """Bytes of one read and its time: the kernel's where it stamps, else right after the read."""
        if not self._plain:
            size = self._socket.recv_into(self._buffer)
            return size, time.perf_counter()
        size, ancillary, _, _ = self._socket.recvmsg_into([self._buffer], stamps.ROOM)
        now = time.perf_counter()
        if not ancillary:
            return size, now
        self.stamped = True
        return size, min(now, stamps.stamp(ancillary[0][2], self._offset) * 1e-9)

    def _ended(self) -> None:
        self._close()
        if self._message.framed:
            raise BrokenStream(f"{self._where} closed the connection inside an answer: look at the server's log.")
        self._message.complete = True

    def _stalled(self) -> Stalled:
        return Stalled(
            f"{self._where} sent nothing for {self._wait_s:g} s: see whether it hangs, or allow more with --timeout."
        )
