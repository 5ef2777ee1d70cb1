"""The answer to one request as it comes in, each read stamped before httptools (llhttp) parses it."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import httptools

from phasewise.errors import BrokenStream, EngineError, NotAnEngine, Stalled, Unreachable

MAX_HEAD = 64 * 2**10
"""Bytes of status line and headers."""

MAX_BODY = 16 * 2**20
"""Bytes of a page that is read whole."""

MAX_STREAM = 256 * 2**20
"""Bytes of a streamed answer, framing included."""

DRAIN_S = 1.0
DRAIN_BYTES = 64 * 2**10
"""What may follow the last event of a stream; a server that sends more, or for longer, loses the connection."""


class Read(NamedTuple):
    """Body bytes of one socket read: ``at`` by ``time.perf_counter()`` right after it, ``number`` counts reads."""

    at: float
    number: int
    data: bytes


class Silence(Exception):
    """The connection ended before the first byte of an answer."""


class Reply:
    """The answer to one request, as far as it has come.

    Attributes:
        status: HTTP status code.
        headers: by lower-case name; of repeated ones, all, joined by a comma.
        sent_at: right before the first byte of the request was written.
        headers_at: right after the read that completed the head.
        complete: the whole body has come.
    """

    def __init__(
        self, opened: socket.socket, buffer: bytearray, wait_s: float, where: str, close: Callable[[], None]
    ) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.sent_at = 0.0
        self.headers_at = 0.0
        self.complete = False
        self._where = where
        self._close = close
        self._socket = opened
        self._buffer = buffer
        self._view = memoryview(buffer)
        self._wait_s = wait_s
        self._until = 0.0
        self._number = 0
        self._received = 0
        self._head_size = 0
        self._has_head = False
        self._keep = False
        self._parts: list[bytes] = []
        self._parser = httptools.HttpResponseParser(self)

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
        while not self._has_head:
            at = self._receive()
            if at is None:
                if self._received:
                    raise Unreachable(f"{self._where} broke off inside the head of its answer: look at its log.")
                raise Silence("end of stream")
            if self._head_size > MAX_HEAD or (not self._has_head and self._received > MAX_HEAD):
                raise NotAnEngine(
                    f"{self._where} sends headers without end (over {MAX_HEAD >> 10} KiB): this is no LLM server."
                )
            self.headers_at = at
        if self.headers.get("content-encoding", "identity").lower() != "identity":
            raise BrokenStream(
                f"{self._where} compresses its answer although that was asked away, which hides when tokens arrive: "
                "turn compression off in the server or the proxy before it."
            )

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
            if self._parts:
                data = b"".join(self._parts)
                self._parts.clear()
                yield Read(at, self._number, data)
            if self.complete:
                if not self._keep:
                    self._close()
                return
            if self._received > limit or self._head_size > MAX_HEAD:
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
        most = self._received + DRAIN_BYTES
        with contextlib.suppress(EngineError):
            while not self.complete and self._received < most:
                # Before the limit, always: at it, _receive gives up.
                self._socket.settimeout(max(1e-3, self._until - time.perf_counter()))
                if self._receive() is None:
                    break
                self._parts.clear()
        self._parts.clear()
        if not (self.complete and self._keep):
            self._close()

    def abandon(self) -> None:
        """Leave the rest of the body unread and close the connection."""
        if not self.complete:
            self._close()

    def _receive(self) -> float | None:
        """Read once; return its time, or None at the end of the stream."""
        try:
            size = self._socket.recv_into(self._buffer)
            at = time.perf_counter()
        except TimeoutError:
            self._close()
            raise self._stalled() from None
        except OSError:
            return None
        if size == 0:
            return None
        self._number += 1
        self._received += size
        try:
            self._parser.feed_data(self._view[:size])
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            if not self._has_head:
                raise NotAnEngine(f"{self._where} does not speak HTTP: is this the port of an LLM server?") from None
            self._close()
            if not self.complete:
                raise BrokenStream(f"{self._where} broke the HTTP framing of its answer: look at its log.") from None
        if at > self._until and not self.complete:
            self._close()
            raise self._stalled()
        return at

    def _ended(self) -> None:
        self._close()
        framed = "content-length" in self.headers or "chunked" in self.headers.get("transfer-encoding", "")
        if framed:
            raise BrokenStream(f"{self._where} closed the connection inside an answer: look at the server's log.")
        self.complete = True

    def _stalled(self) -> Stalled:
        return Stalled(
            f"{self._where} sent nothing for {self._wait_s:g} s: see whether it hangs, or allow more with --timeout."
        )

    # Callbacks of httptools.

    def on_message_begin(self) -> None:
        """Notice a second answer to the one request: nothing on such a connection can be trusted."""
        if self.complete:
            self._close()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take one header, or one trailer."""
        self._head_size += len(name) + len(value) + 4
        if not (self._has_head or self.complete):
            key, text = name.decode("latin-1").lower(), value.decode("latin-1")
            self.headers[key] = f"{self.headers[key]}, {text}" if key in self.headers else text

    def on_headers_complete(self) -> None:
        """Take the end of the head; an interim answer (1xx) is not it."""
        status = self._parser.get_status_code()
        if self.complete:
            return
        if status >= 200:
            self.status, self._has_head = status, True
        else:
            self.headers.clear()

    def on_body(self, data: bytes) -> None:
        """Take body bytes."""
        if not self.complete:
            self._parts.append(data)

    def on_message_complete(self) -> None:
        """Take the end of the body."""
        if self._has_head and not self.complete:
            self.complete, self._keep = True, self._parser.should_keep_alive()
