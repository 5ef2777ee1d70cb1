"""HTTP/1.1 on one connection: requests in, one response at a time out.

Over plain sockets and not asyncio's transports, for the sake of the kernel's receive time: a server that sleeps is
woken 20 to 200 µs after the bytes came, the longer it slept the later, and the planted time starts before that.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
import time
from collections import deque
from collections.abc import Callable
from http import HTTPStatus

import httptools
import msgspec

MAX_REQUEST = 64 * 2**20
"""Bytes of a request that are taken; more are answered with 413."""

_READ = 2**17
_PIPELINE = 16
_TIMESTAMPNS = 35  # SO_TIMESTAMPNS of Linux, which the socket module does not name
_TIMESPEC = struct.Struct("@ll")


class HttpRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request; ``arrived`` is when its first bytes came (monotonic seconds)."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    arrived: float
    keep_alive: bool


class Connection:
    """Parses requests and hands them, one after the other, to ``handle``; calls ``on_lost`` when the client leaves.

    ``served`` counts the requests that were begun.
    """

    def __init__(self, sock: socket.socket, handle: Callable[[Connection, HttpRequest], None]) -> None:
        self.on_lost: Callable[[], None] | None = None
        self.served = 0
        self._socket = sock
        self._handle = handle
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpRequestParser(self)
        self._pending: deque[HttpRequest] = deque()
        self._current: HttpRequest | None = None
        self._unsent = bytearray()
        self._closing = False
        self._read_at = self._arrived = 0.0
        self._received = 0
        self._url = b""
        self._headers: dict[str, str] = {}
        self._body = bytearray()
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if sys.platform == "linux":
            sock.setsockopt(socket.SOL_SOCKET, _TIMESTAMPNS, 1)
        self._loop.add_reader(sock, self._readable)

    # the client's side

    def _readable(self) -> None:
        try:
            data, ancillary, *_ = self._socket.recvmsg(_READ, 64)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._lost()
        if not data or self._closing:
            return
        self._read_at = _came_at(ancillary)
        self._received += len(data)
        if self._received > MAX_REQUEST:
            self._refuse(413, f"a request may have {MAX_REQUEST} bytes")
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserCallbackError:
            self.close()
            raise  # a mistake of ours, not the client's
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._refuse(400, f"not plain HTTP/1.1: {error}")

    def _writable(self) -> None:
        unsent, self._unsent = bytes(self._unsent), bytearray()
        self._loop.remove_writer(self._socket)
        self.write(unsent)
        if self._closing and not self._unsent:
            self._shut()

    def _lost(self) -> None:
        on_lost, self.on_lost = self.on_lost, None
        self._shut()
        if on_lost:
            on_lost()

    def _shut(self) -> None:
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket)
            self._loop.remove_writer(self._socket)
            self._socket.close()
        self._pending.clear()

    def _refuse(self, status: int, why: str) -> None:
        self.write(head(status, "text/plain", f"content-length: {len(why)}", "connection: close") + why.encode())
        self.close()

    # httptools' side

    def on_message_begin(self) -> None:
        """Called by httptools."""
        self._arrived = self._read_at
        self._url, self._headers, self._body = b"", {}, bytearray()

    def on_url(self, url: bytes) -> None:
        """Called by httptools."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Called by httptools."""
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """Called by httptools."""
        if self._headers.get("expect", "").lower() == "100-continue" and self._current is None:
            self.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        """Called by httptools."""
        self._body += body

    def on_message_complete(self) -> None:
        """Called by httptools."""
        self._received = 0
        request = HttpRequest(
            method=self._parser.get_method().decode("latin-1"),
            path=self._url.split(b"?", 1)[0].decode("latin-1"),
            headers=self._headers,
            body=bytes(self._body),
            arrived=self._arrived,
            keep_alive=self._parser.should_keep_alive(),
        )
        if self._closing:
            return
        if self._current is None:
            self._serve(request)
        elif len(self._pending) < _PIPELINE:
            self._pending.append(request)
        else:
            self._lost()

    # the server's side

    def respond(self, status: int, body: bytes, content_type: str = "application/json") -> None:
        """Send a whole response."""
        self.write(head(status, content_type, f"content-length: {len(body)}") + body)
        self.done()

    def write(self, data: bytes) -> None:
        """Send bytes now, as many as the client takes; nothing happens when it is gone."""
        if not data or self._socket.fileno() < 0:
            return
        sent = 0
        if not self._unsent:
            try:
                sent = self._socket.send(data)
            except BlockingIOError:
                pass
            except OSError:
                self._lost()
                return
        if sent < len(data):
            self._unsent += data[sent:]
            self._loop.add_writer(self._socket, self._writable)

    def done(self) -> None:
        """The response is complete: take the next request."""
        self.on_lost = None
        request, self._current = self._current, None
        if request is None or not request.keep_alive:
            self.close()
        elif self._pending:
            self._serve(self._pending.popleft())

    def close(self) -> None:
        """Close the connection, in the middle of whatever it was doing, after the bytes already written."""
        self._closing = True
        if not self._unsent:
            self._shut()

    def _serve(self, request: HttpRequest) -> None:
        self._current = request
        self.served += 1
        self._handle(self, request)


def _came_at(ancillary: list[tuple[int, int, bytes]]) -> float:
    """When the kernel had the bytes just read, on the monotonic clock; now, where it does not say."""
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, _TIMESTAMPNS):
            seconds, nanoseconds = _TIMESPEC.unpack(data)
            age: float = (time.time_ns() - seconds * 10**9 - nanoseconds) * 1e-9
            if 0 <= age < 1:  # not when the wall clock was set in between
                return time.monotonic() - age
    return time.monotonic()


def head(status: int, content_type: str, *fields: str) -> bytes:
    """The status line and headers of a response."""
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = "Unknown"
    lines = (f"HTTP/1.1 {status} {phrase}", "server: phasewise-simulate", f"content-type: {content_type}", *fields)
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def chunk(data: bytes) -> bytes:
    """``data`` as one chunk of chunked transfer encoding; empty data ends the body."""
    return b"%x\r\n%b\r\n" % (len(data), data)
