"""HTTP/1.1 on one connection: requests in, one response at a time out."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from http import HTTPStatus
from typing import cast

import httptools
import msgspec

MAX_REQUEST = 64 * 2**20
"""Bytes of a request that are taken; more are answered with 413."""

_PIPELINE = 16


class HttpRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request; ``arrived`` is when its first byte was read (monotonic seconds)."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    arrived: float
    keep_alive: bool


class Connection(asyncio.Protocol):
    """Parses requests and hands them, one after the other, to ``handle``."""

    def __init__(self, handle: Callable[[Connection, HttpRequest], None]) -> None:
        self._handle = handle
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._pending: deque[HttpRequest] = deque()
        self._current: HttpRequest | None = None
        self._read_at = self._arrived = 0.0
        self._received = 0
        self._url = b""
        self._headers: dict[str, str] = {}
        self._body = bytearray()
        self.on_lost: Callable[[], None] | None = None

    # asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Called by asyncio."""
        self._read_at = time.monotonic()
        self._received += len(data)
        if self._received > MAX_REQUEST:
            self._refuse(413, f"a request may have {MAX_REQUEST} bytes")
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._refuse(400, "upgrades are not supported")
        except httptools.HttpParserCallbackError:
            raise  # a mistake of ours, not the client's
        except httptools.HttpParserError as error:
            self._refuse(400, f"not HTTP/1.1: {error}")

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by asyncio."""
        self._transport = None
        self._pending.clear()
        if self.on_lost:
            self.on_lost()

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
        if self._current is None:
            self._serve(request)
        elif len(self._pending) < _PIPELINE:
            self._pending.append(request)
        else:
            self.abort()

    # the server's side

    def respond(self, status: int, body: bytes, content_type: str = "application/json") -> None:
        """Send a whole response."""
        self.write(head(status, content_type, f"content-length: {len(body)}") + body)
        self.done()

    def write(self, data: bytes) -> None:
        """Send bytes now; nothing happens when the client is gone."""
        if self._transport is not None:
            self._transport.write(data)

    def done(self) -> None:
        """The response is complete: take the next request."""
        self.on_lost = None
        request, self._current = self._current, None
        if request is None or not request.keep_alive:
            if self._transport is not None:
                self._transport.close()
        elif self._pending:
            self._serve(self._pending.popleft())

    def abort(self) -> None:
        """Close the connection in the middle of whatever it was doing, after the bytes already written."""
        if self._transport is not None:
            self._transport.close()

    def _serve(self, request: HttpRequest) -> None:
        self._current = request
        self._handle(self, request)

    def _refuse(self, status: int, why: str) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self.write(head(status, "text/plain", f"content-length: {len(why)}", "connection: close") + why.encode())
            self._transport.close()


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
