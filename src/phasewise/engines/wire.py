"""One HTTP/1.1 connection that stamps every read before it looks at it.

Plain blocking sockets, one request at a time: a clock read right after each ``recv`` is as near to the arrival of a
token as a client gets, with no event loop, pool or decoder between. httptools (llhttp) parses the protocol.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import httptools

from phasewise.engines.address import Address
from phasewise.errors import BrokenStream, EngineError, NotAnEngine, Stalled, Unreachable

MAX_HEAD = 64 * 2**10
"""Bytes of status line and headers."""

MAX_BODY = 16 * 2**20
"""Bytes of a page that is read whole."""

MAX_STREAM = 256 * 2**20
"""Bytes of a streamed answer, framing included."""

_RECV = 256 * 2**10


class Read(NamedTuple):
    """Body bytes of one socket read: ``at`` by ``time.perf_counter()`` right after it, ``number`` counts reads."""

    at: float
    number: int
    data: bytes


class Page(NamedTuple):
    """An answer that was read whole."""

    status: int
    headers: dict[str, str]
    body: bytes


class Connection:
    """A connection to one server, opened when it is first needed and kept open.

    Args:
        address: where the server is.
        insecure: accept any TLS certificate.
        connect_s: limit for DNS, TCP and TLS together with each address of the host, seconds.
    """

    def __init__(self, address: Address, *, insecure: bool = False, connect_s: float = 10.0) -> None:
        self.address = address
        self._insecure = insecure
        self._connect_s = connect_s
        self._socket: socket.socket | None = None
        self._buffer = bytearray(_RECV)
        self._reply: Reply | None = None

    def request(
        self, method: str, path: str, *, body: bytes = b"", headers: Mapping[str, str] = {}, wait_s: float
    ) -> Reply:
        """Send one request and wait for the head of its answer.

        A connection that the server closed while it was idle is opened again, once, and only when nothing of an answer
        had come. ``path`` starts at the server's root. The answer's body must be read or the reply closed before the
        next request; a body left unread closes the connection.

        Args:
            method: ``GET`` or ``POST``.
            path: from the server's root.
            body: JSON, sent with its content type.
            headers: more header lines.
            wait_s: seconds without progress after which the server counts as stalled.

        Raises:
            Unreachable: no connection, or it broke before the answer's head was complete.
            Stalled: no complete head within ``wait_s``.
            NotAnEngine: what answers does not speak HTTP.
            BrokenStream: the answer is compressed although that was asked away.
        """
        message = self._message(method, path, body, headers)
        if self._reply is not None and not self._reply.complete:
            self.close()
        self._reply = None
        reused = self._still_open()
        try:
            return self._exchange(message, wait_s)
        except _Silence as silence:
            self.close()
            if not reused:
                raise Unreachable(
                    f"{self.address.shown} closed the connection without an answer ({silence}): look at the "
                    "server's log."
                ) from None
        try:
            return self._exchange(message, wait_s)
        except _Silence as silence:
            self.close()
            raise Unreachable(
                f"{self.address.shown} closed the connection without an answer, twice ({silence}): look at the "
                "server's log."
            ) from None

    def fetch(
        self, method: str, path: str, *, body: bytes = b"", headers: Mapping[str, str] = {}, wait_s: float
    ) -> Page:
        """Send one request and read its answer whole, all within about ``wait_s`` seconds.

        Raises:
            EngineError: as ``request``; BrokenStream also for a body that is cut short or over ``MAX_BODY``.
        """
        reply = self.request(method, path, body=body, headers=headers, wait_s=wait_s)
        return Page(reply.status, reply.headers, reply.body())

    def close(self) -> None:
        """Close the socket; the next request opens a new one."""
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.close()
            self._socket = None

    def _exchange(self, message: bytes, wait_s: float) -> Reply:
        if self._socket is None:
            self._socket = self._open()
        self._socket.settimeout(wait_s)
        reply = self._reply = Reply(self, self._socket, self._buffer, wait_s)
        try:
            reply.start(message)
        except EngineError:
            self.close()
            raise
        return reply

    def _message(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> bytes:
        lines = {
            "Host": self.address.authority,
            "User-Agent": "phasewise",
            "Accept-Encoding": "identity",
            "Connection": "keep-alive",
            **headers,
        }
        if method == "POST":
            lines |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
        head = f"{method} {self.address.target(path)} HTTP/1.1\r\n"
        return (head + "".join(f"{name}: {value}\r\n" for name, value in lines.items()) + "\r\n").encode("ascii") + body

    def _still_open(self) -> bool:
        """Whether the kept connection can be used; one with bytes that nobody asked for cannot."""
        if self._socket is None:
            return False
        self._socket.settimeout(0)
        try:
            self._socket.recv(1)
        except (BlockingIOError, ssl.SSLWantReadError):
            return True
        except OSError:
            pass
        self.close()
        return False

    def _open(self) -> socket.socket:
        where = self.address.shown
        try:
            opened = socket.create_connection((self.address.host, self.address.port), timeout=self._connect_s)
        except socket.gaierror as error:
            raise Unreachable(
                f"The host of {where} has no address ({error.strerror}): check its spelling and the network."
            ) from None
        except ConnectionRefusedError:
            raise Unreachable(
                f"Nothing listens at {where} (connection refused): start the server or correct the port."
            ) from None
        except TimeoutError:
            raise Unreachable(
                f"No connection to {where} within {self._connect_s:g} s: check the address and the firewall."
            ) from None
        except OSError as error:
            raise Unreachable(
                f"No connection to {where} ({error.strerror or error}): check the address and the network."
            ) from None
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self._secure(opened) if self.address.scheme == "https" else opened

    def _secure(self, opened: socket.socket) -> socket.socket:
        where = self.address.shown
        context = ssl.create_default_context()
        if self._insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        try:
            return context.wrap_socket(opened, server_hostname=self.address.host)
        except ssl.SSLCertVerificationError as error:
            opened.close()
            raise Unreachable(
                f"The certificate of {where} is not trusted ({error.verify_message}): give --insecure if the server "
                "is yours, or name its CA file in SSL_CERT_FILE."
            ) from None
        except (OSError, ValueError) as error:
            opened.close()
            reason = error.reason if isinstance(error, ssl.SSLError) else error
            raise Unreachable(
                f"{where} did not agree on TLS ({reason}): if the server has no TLS, write http://."
            ) from None


class _Silence(Exception):
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

    def __init__(self, connection: Connection, opened: socket.socket, buffer: bytearray, wait_s: float) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.sent_at = 0.0
        self.headers_at = 0.0
        self.complete = False
        self._connection = connection
        self._where = connection.address.shown
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
                raise _Silence("end of stream")
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
                    self._connection.close()
                return
            if self._received > limit or self._head_size > MAX_HEAD:
                self._connection.close()
                raise BrokenStream(f"{self._where} sends an answer without end: this is no answer of a model.")
            at = self._receive()

    def body(self, limit: int = MAX_BODY) -> bytes:
        """Read the whole body."""
        return b"".join(read.data for read in self.reads(limit))

    def drain(self) -> None:
        """Read to the end after the last event, so that the connection can be used again; close it if that takes."""
        self._socket.settimeout(1.0)
        with contextlib.suppress(EngineError):
            while not self.complete:
                if self._receive() is None:
                    self._connection.close()
                    break
        if not self._keep:
            self._connection.close()

    def abandon(self) -> None:
        """Leave the rest of the body unread and close the connection."""
        if not self.complete:
            self._connection.close()

    def _receive(self) -> float | None:
        """Read once; return its time, or None at the end of the stream."""
        try:
            size = self._socket.recv_into(self._buffer)
            at = time.perf_counter()
        except TimeoutError:
            self._connection.close()
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
            self._connection.close()
            if not self.complete:
                raise BrokenStream(f"{self._where} broke the HTTP framing of its answer: look at its log.") from None
        if at > self._until and not self.complete:
            self._connection.close()
            raise self._stalled()
        return at

    def _ended(self) -> None:
        self._connection.close()
        framed = "content-length" in self.headers or "chunked" in self.headers.get("transfer-encoding", "")
        if framed:
            raise BrokenStream(f"{self._where} closed the connection inside an answer: look at the server's log.")
        self.complete = True

    def _stalled(self) -> Stalled:
        return Stalled(f"{self._where} sent nothing for {self._wait_s:g} s: see whether it hangs, or allow more time.")

    # Callbacks of httptools.

    def on_message_begin(self) -> None:
        """Notice a second answer to the one request: nothing on such a connection can be trusted."""
        if self.complete:
            self._connection.close()

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
