"""One HTTP/1.1 connection that stamps every read before it looks at it.

Plain blocking sockets, one request at a time: a clock read right after each ``recv`` is as near to the arrival of a
token as a client gets, with no event loop, pool or decoder between.
"""

from __future__ import annotations

import contextlib
import errno
import socket
import ssl
from collections.abc import Mapping
from typing import NamedTuple

from phasewise.engines import stamps
from phasewise.engines.address import Address
from phasewise.engines.reply import Reply, Silence
from phasewise.errors import EngineError, Unreachable

_RECV = 256 * 2**10

CONNECT_S = 10.0
"""Limit for TCP, with each address of the host, and for TLS, seconds."""


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
        connect_s: limit for TCP, with each address of the host, and for TLS, seconds.
    """

    def __init__(self, address: Address, *, insecure: bool = False, connect_s: float = CONNECT_S) -> None:
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
        request = message(self.address, method, path, body, headers)
        if self._reply is not None and not self._reply.complete:
            self.close()
        self._reply = None
        reused = self._still_open()
        try:
            return self._exchange(request, wait_s)
        except Silence as silence:
            self.close()
            if not reused:
                raise Unreachable(
                    f"{self.address.shown} closed the connection without an answer ({silence}): look at the "
                    "server's log."
                ) from None
        try:
            return self._exchange(request, wait_s)
        except Silence as silence:
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

    def _exchange(self, request: bytes, wait_s: float) -> Reply:
        if self._socket is None:
            self._socket = self._open()
        self._socket.settimeout(wait_s)
        reply = self._reply = Reply(self._socket, self._buffer, wait_s, self.address.shown, self.close)
        try:
            reply.start(request)
        except EngineError:
            self.close()
            raise
        return reply

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
        where = (self.address.host, self.address.port)
        try:
            opened = socket.create_connection(where, timeout=self._connect_s)
        except OSError as error:
            raise unreachable(self.address, error, self._connect_s) from None
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        stamps.enable(opened)
        return self._secure(opened) if self.address.scheme == "https" else opened

    def _secure(self, opened: socket.socket) -> socket.socket:
        try:
            return tls_context(insecure=self._insecure).wrap_socket(opened, server_hostname=self.address.host)
        except (OSError, ValueError) as error:
            opened.close()
            raise unsecured(self.address, error) from None


def tls_context(*, insecure: bool) -> ssl.SSLContext:
    """The system's authorities, or those of SSL_CERT_FILE; with ``insecure`` any certificate will do."""
    context = ssl.create_default_context()
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def unreachable(address: Address, error: OSError, connect_s: float = CONNECT_S) -> Unreachable:
    """The error for a connection that could not be opened (TCP)."""
    where = address.shown
    if isinstance(error, socket.gaierror):
        return Unreachable(
            f"The host of {where} has no address ({error.strerror}): check its spelling and the network."
        )
    if error.errno == errno.ECONNREFUSED:
        return Unreachable(f"Nothing listens at {where} (connection refused): start the server or correct the port.")
    if isinstance(error, TimeoutError):
        return Unreachable(f"No connection to {where} within {connect_s:g} s: check the address and the firewall.")
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return Unreachable(
            "This process may open no more sockets: raise the limit with `ulimit -n`, or ask for fewer at once."
        )
    if error.errno == errno.EADDRNOTAVAIL:
        return Unreachable(
            "No local port is free for another connection: keep connections open, or send fewer at once."
        )
    return Unreachable(f"No connection to {where} ({error.strerror or error}): check the address and the network.")


def unsecured(address: Address, error: OSError | ValueError) -> Unreachable:
    """The error for a connection whose two ends did not agree on TLS."""
    where = address.shown
    if isinstance(error, ssl.SSLCertVerificationError):
        return Unreachable(
            f"The certificate of {where} is not trusted ({error.verify_message}): give --insecure if the server "
            "is yours, or name its CA file in SSL_CERT_FILE."
        )
    reason = error.reason if isinstance(error, ssl.SSLError) else error
    return Unreachable(f"{where} did not agree on TLS ({reason}): if the server has no TLS, write http://.")


def message(address: Address, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> bytes:
    """A whole request as bytes."""
    lines = {
        "Host": address.authority,
        "User-Agent": "phasewise",
        "Accept-Encoding": "identity",
        "Connection": "keep-alive",
        **headers,
    }
    if method == "POST":
        lines |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
    head = f"{method} {address.target(path)} HTTP/1.1\r\n"
    return (head + "".join(f"{name}: {value}\r\n" for name, value in lines.items()) + "\r\n").encode("ascii") + body
