"""One non-blocking connection of the loop: opening, TLS, sending, and how it is read."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import socket
import ssl
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from phasewise.engines import poller, stamps
from phasewise.engines.address import Address
from phasewise.engines.flight import Flight
from phasewise.engines.tls import Tls
from phasewise.engines.wire import message, unreachable

_UNDERWAY = (errno.EINPROGRESS, errno.EWOULDBLOCK, errno.EALREADY)
_RECV = 64 * 2**10

_FILES = 64
"""Files that a process has open beside its connections."""


class Place(NamedTuple):
    """A socket address of a server, and its family."""

    family: int
    where: Any


def resolve(address: Address) -> list[Place]:
    """All socket addresses of a server, in the order in which the system would have them tried.

    Raises:
        Unreachable: its host has none.
    """
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise unreachable(address, error) from None
    return list(dict.fromkeys(Place(family, where) for family, _, _, _, where in found))


def allow(sockets: int) -> None:
    """Let this process open so many, as far as the system lets it without asking: many shells allow 1,024 files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = sockets + _FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with contextlib.suppress(OSError, ValueError):  # some systems refuse what they state
            resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))


class Line:
    """A connection, and the flight that has it.

    Attributes:
        place: what it is connected to.
        fileno: of its socket.
        flight: what it carries; None when it is idle.
        connecting: TCP or TLS is not ready.
        securing: TCP is ready, TLS is not.
        waits: what the loop waits for at its socket.
        reused: it carried a request before.
        long: a small buffer does not do for what it brings.
        began: ns; when it was opened, or given a request anew.
    """

    def __init__(self, address: Address, place: Place, context: ssl.SSLContext | None) -> None:
        """Start to connect.

        Raises:
            OSError: no socket, or the address is refused at once.
        """
        self.place = place
        self.flight: Flight | None = None
        self.connecting, self.securing, self.reused = True, False, False
        self.waits = poller.IN | poller.OUT
        self.began = time.perf_counter_ns()
        self._address = address
        self._out = memoryview(b"")
        self._request = b""
        self._tls = Tls(context, address.host) if context is not None else None
        self._socket = socket.socket(place.family, socket.SOCK_STREAM)
        try:
            self._socket.setblocking(False)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            stamps.enable(self._socket)
            if (code := self._socket.connect_ex(place.where)) not in (0, *_UNDERWAY):
                raise OSError(code, os.strerror(code))
        except OSError:
            self._socket.close()
            raise
        self.fileno = self._socket.fileno()
        self.long = self._tls is not None
        self.receive = self._socket.recvmsg if self._tls is None else self._unseal
        """As ``socket.recvmsg``; TLS gives what it has, of any size, and BlockingIOError also when that is nothing."""

    @property
    def blocked(self) -> bool:
        """Whether it waits until it can be written to."""
        return bool(self._out) or (self.connecting and not self.securing)

    @property
    def wants(self) -> int:
        """What the loop should wait for at its socket now."""
        return poller.IN | poller.OUT if self.blocked else poller.IN

    @property
    def carried(self) -> Flight:
        """Its flight, where it must have one."""
        assert self.flight is not None
        return self.flight

    def begin(self, flight: Flight, headers: Mapping[str, str]) -> None:
        """Take a request; `push` sends it."""
        order = flight.order
        self.flight = flight
        self.reused = not self.connecting
        if self.reused:
            self.began = time.perf_counter_ns()
        accept = {"Accept": "text/event-stream"}
        self._request = message(self._address, "POST", order.path, order.body, {**headers, **accept})

    def push(self) -> bool:
        """Go on with connecting and sending; True when all is sent.

        Raises:
            OSError: the connection failed or broke.
        """
        if self.connecting and not self._connected():
            return False
        flight = self.carried
        if not flight.sent_at:
            request, self._request = self._request, b""
            self._out = memoryview(self._tls.seal(request) if self._tls is not None else request)
            flight.sent_at = time.perf_counter_ns()
            if not self.reused:
                flight.connect_ns = flight.sent_at - self.began
        return self._sent()

    def read_on(self) -> None:
        """Add to its flight's last read what the buffer had no room for; it came with it."""
        self.long = True
        flight = self.carried
        with contextlib.suppress(OSError):
            data, ancillary, _, _ = self.receive(_RECV, stamps.ROOM)
            if data:
                flight.reads[-1] += data
                flight.marks[-1] = ancillary[0][2] if ancillary else time.perf_counter_ns()

    def give_up_sending(self) -> None:
        """Send no more of the request."""
        self._out = memoryview(b"")

    def alive(self) -> bool:
        """Whether an idle connection is still open and silent."""
        try:
            self._socket.recv(1)
        except BlockingIOError:
            return True
        except OSError:
            pass
        return False

    def close(self) -> None:
        """Close the socket."""
        with contextlib.suppress(OSError):
            self._socket.close()

    def _sent(self) -> bool:
        try:
            while self._out:
                self._out = self._out[self._socket.send(self._out) :]
        except BlockingIOError:
            return False
        return True

    def _connected(self) -> bool:
        if not self.securing:
            if code := self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                raise OSError(code, os.strerror(code))
            try:
                self._socket.getpeername()
            except OSError:
                return False
        self.securing = self._tls is not None
        if self._tls is not None and not self._shaken(self._tls):
            return False
        self.connecting = self.securing = False
        return True

    def _shaken(self, tls: Tls) -> bool:
        received = b""
        while self._sent():
            done = tls.shake(received)
            self._out = memoryview(tls.pending())
            if done:
                return self._sent()
            if not self._sent():
                return False
            try:
                received = self._socket.recv(_RECV)
            except BlockingIOError:
                return False
            if not received:
                raise ConnectionResetError(errno.ECONNRESET, "closed while TLS was agreed on")
        return False

    def _unseal(self, _size: int, room: int) -> tuple[bytes, Any, int, Any]:
        assert self._tls is not None
        data, ancillary, flags, where = self._socket.recvmsg(_RECV, room)
        if data:
            data = self._tls.unseal(data)
            if not data:
                raise BlockingIOError
        return data, ancillary, flags, where
