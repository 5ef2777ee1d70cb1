"""One non-blocking connection of the loop: opening, TLS, sending."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import ssl
import time
from collections.abc import Mapping

from phasewise.engines import stamps
from phasewise.engines.address import Address
from phasewise.engines.flight import Flight
from phasewise.engines.wire import message
from phasewise.errors import Unreachable

_UNDERWAY = (errno.EINPROGRESS, errno.EWOULDBLOCK, errno.EALREADY)


def resolve(address: Address) -> tuple[int, tuple[str, int]]:
    """Address family and socket address of a server, looked up once for all its connections.

    Raises:
        Unreachable: its host has no address.
    """
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise Unreachable(
            f"The host of {address.shown} has no address ({error.strerror}): check its spelling and the network."
        ) from None
    family, _, _, _, where = min(found, key=lambda one: one[0] != socket.AF_INET)
    return family, where  # type: ignore[return-value]


class Line:
    """A connection, and the flight that has it.

    Attributes:
        fileno: of its socket.
        flight: what it carries; None when it is idle.
        connecting: TCP or TLS is not ready.
        writing: the loop waits until it can be written to.
        stamped: the kernel stamps what it receives.
        reused: it carried a request before.
        began: ns; when it was given its flight.
    """

    def __init__(self, address: Address, where: tuple[int, tuple[str, int]], *, insecure: bool) -> None:
        self._address = address
        self._family, self._where = where
        self._insecure = insecure
        self._out = memoryview(b"")
        self.flight: Flight | None = None
        self.connecting = True
        self.writing = self.reused = self.stamped = False
        self.began = 0
        self.fileno = -1

    def open(self) -> None:
        """Start to connect.

        Raises:
            OSError: no socket, or the address is refused at once.
        """
        self.began = time.perf_counter_ns()
        self.socket: socket.socket = socket.socket(self._family, socket.SOCK_STREAM)
        try:
            self.socket.setblocking(False)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.stamped = self._address.scheme == "http" and hasattr(self.socket, "recvmsg_into")
            if self.stamped:
                stamps.enable(self.socket)
            if (code := self.socket.connect_ex(self._where)) not in (0, *_UNDERWAY):
                raise OSError(code, os.strerror(code))
            if self._address.scheme == "https":
                self._secure()
        except OSError:
            self.socket.close()
            raise
        self.fileno = self.socket.fileno()

    def begin(self, flight: Flight, headers: Mapping[str, str]) -> None:
        """Take a request; `push` sends it."""
        order = flight.order
        self.flight = flight
        self.reused = not self.connecting
        if self.reused:
            self.began = time.perf_counter_ns()
        accept = {"Accept": "text/event-stream"}
        self._out = memoryview(message(self._address, "POST", order.path, order.body, {**headers, **accept}))

    def push(self) -> bool:
        """Go on with connecting and sending; True when all is sent.

        Raises:
            OSError: the connection failed or broke.
        """
        if self.connecting and not self._connected():
            return False
        assert self.flight is not None
        if not self.flight.sent_at:
            self.flight.sent_at = time.perf_counter_ns()
            if not self.reused:
                self.flight.connect_ns = self.flight.sent_at - self.began
        try:
            while self._out:
                self._out = self._out[self.socket.send(self._out) :]
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return False
        return True

    def give_up_sending(self) -> None:
        """Send no more of the request."""
        self._out = memoryview(b"")

    def alive(self) -> bool:
        """Whether an idle connection is still open and silent."""
        try:
            self.socket.recv(1)
        except (BlockingIOError, ssl.SSLWantReadError):
            return True
        except OSError:
            pass
        return False

    def close(self) -> None:
        """Close the socket."""
        with contextlib.suppress(OSError):
            self.socket.close()

    def _connected(self) -> bool:
        if code := self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            raise OSError(code, os.strerror(code))
        try:
            self.socket.getpeername()
        except OSError:
            return False
        if isinstance(self.socket, ssl.SSLSocket):
            try:
                self.socket.do_handshake()
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return False
        self.connecting = False
        return True

    def _secure(self) -> None:
        context = ssl.create_default_context()
        if self._insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        self.socket = context.wrap_socket(
            self.socket, server_hostname=self._address.host, do_handshake_on_connect=False
        )
