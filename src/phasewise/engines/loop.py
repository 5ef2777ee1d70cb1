"""Many streamed requests at once from one thread: an epoll loop that stamps and keeps, and parses when there is time.

Used wherever more than one request is in the air. It is written without asyncio on purpose: between the kernel and a
stamp lie one poll and one recvmsg, whatever the number of streams, and the kernel's own stamp takes even those out.
"""

from __future__ import annotations

import contextlib
import errno
import heapq
import select
import ssl
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from phasewise.engines import stamps
from phasewise.engines.address import Address
from phasewise.engines.exchange import Exchange, Order
from phasewise.engines.flight import Flight, Sink
from phasewise.engines.line import Line, resolve
from phasewise.engines.quiet import no_collection
from phasewise.engines.selfwatch import SelfWatch

_RECV = 64 * 2**10
_SHORT, _LONG = 8, 16 * 2**10
"""Bytes: a shorter read may be the end of a body, a longer one is not kept but parsed."""

_SWEEP_NS = 200_000_000
"""Every so often all flights are looked at: ends that the quick test missed, stalls, faults."""

_OFFSET_NS = 1_000_000_000
"""The offset between the clocks is taken anew this often."""

_SPIN_NS = 1_500_000
"""epoll counts in milliseconds: the last of them before something is due is waited out by polling."""

_LOOK = 15
"""The client looks at its own lateness at one poll in 16."""

_TAIL = b"0\r\n\r\n"
"""How a chunked body ends, unless it has trailers."""

Hot = tuple[Callable[..., Any], list[bytes], Callable[[bytes], None], Callable[[bytes | int], None], int]
"""Of a stream that is only being received: how to read, what is kept, where reads and stamps go, when to parse."""


class Loop:
    """Requests to one server.

    Args:
        address: where it is.
        headers: of every request.
        secret: the API key, kept out of messages.
        insecure: accept any TLS certificate.
        stall_s: seconds without an event after which a request counts as stalled.
        most: connections that may be open at once; more requests wait, and their delay is the client's.
        sink: takes events as they come, so that none are kept.
    """

    def __init__(
        self,
        address: Address,
        *,
        headers: Mapping[str, str],
        secret: str = "",
        insecure: bool = False,
        stall_s: float = 60.0,
        most: int = 4096,
        sink: Sink | None = None,
    ) -> None:
        self.watch = SelfWatch()
        self._address = address
        self._headers = dict(headers)
        self._secret = secret
        self._insecure = insecure
        self._stall_ns = int(stall_s * 1e9)
        self._most = most
        self._sink = sink
        self._due: list[tuple[float, int, Order]] = []
        self._flying: dict[int, Line] = {}
        self._hot: dict[int, Hot] = {}
        self._idle: deque[Line] = deque()
        self._finished: list[Exchange] = []
        self._poll = select.epoll()
        self._count = 0
        self._offset = stamps.offset()
        self._swept = self._offset_at = time.perf_counter_ns()
        self._where = resolve(address)

    @property
    def in_flight(self) -> int:
        """Requests that were sent, or are being connected, and are not complete."""
        return len(self._flying)

    @property
    def waiting(self) -> int:
        """Requests that are not due yet, or for which there is no connection."""
        return len(self._due)

    def submit(self, order: Order) -> None:
        """Send ``order`` when it is due."""
        self._count += 1
        heapq.heappush(self._due, (order.due, self._count, order))

    def cancel(self) -> list[Exchange]:
        """Break off everything; what was in the air comes back as it is, what was not sent is forgotten."""
        self._due.clear()
        for line in list(self._flying.values()):
            if line.flight is not None:
                line.flight.parse(self._offset)
                line.flight.fail("broken off by us")
                self._finish(line)
        done, self._finished = self._finished, []
        return done

    def step(self, until: float) -> list[Exchange]:
        """Work until ``until`` (``perf_counter`` seconds) or until something is complete; return what is.

        Nothing raises for what a server does: a request that failed says why in its ``error``.
        """
        with no_collection():
            while True:
                now = time.perf_counter()
                self._launch(now)
                if self._finished or now >= until:
                    break
                self._receive(int(self._next(until) * 1e9))
                if time.perf_counter_ns() - self._swept > _SWEEP_NS:
                    self._sweep(time.perf_counter_ns())
        done, self._finished = self._finished, []
        return done

    def close(self) -> None:
        """Close every connection."""
        for line in (*self._flying.values(), *self._idle):
            line.close()
        self._flying.clear()
        self._idle.clear()
        self._poll.close()

    def _next(self, until: float) -> float:
        """When something other than receiving is to be done."""
        then = min(until, (self._swept + _SWEEP_NS) * 1e-9)
        return min(then, self._due[0][0]) if self._due and self.in_flight < self._most else then

    def _launch(self, now: float) -> None:
        """Start what is due."""
        while self._due and self._due[0][0] <= now and len(self._flying) < self._most:
            order = heapq.heappop(self._due)[2]
            self._start(Flight(order, self._address, self._secret, self._sink), fresh=order.fresh)

    def _start(self, flight: Flight, *, fresh: bool) -> None:
        while self._idle and not fresh:
            line = self._idle.pop()
            if line.alive():
                break
            self._drop(line)
        else:
            line = Line(self._address, self._where, insecure=self._insecure)
            try:
                line.open()
            except OSError as error:
                flight.fail(_no_connection(self._address, error))
                self._finished.append(flight.exchange())
                return
            self._poll.register(line.fileno, select.EPOLLIN | select.EPOLLOUT)
            line.writing = True
        line.begin(flight, self._headers)
        self._flying[line.fileno] = line
        if not line.connecting:
            self._write(line)

    def _receive(self, until: int) -> None:
        """Receive until ``until`` (ns) or until an answer is complete.

        This is the hot path: a dictionary, a system call and two appends per read.
        """
        poll, hot, size, room, tail = self._poll.poll, self._hot, _RECV, stamps.ROOM, _TAIL
        clock = time.perf_counter_ns
        now, turn = clock(), 0
        nothing: list[tuple[int, int, bytes]] = []
        while now < until and not self._finished:
            wait = (until - now - _SPIN_NS) * 1e-9
            ready = poll(wait if wait > 0 else 0)
            now = clock()
            ancillary = nothing
            for fileno, event in ready:
                stream = hot.get(fileno)
                if stream is None:
                    self._stir(fileno, event, now)
                    continue
                receive, reads, keep, mark, patience = stream
                try:
                    data, ancillary, _, _ = receive(size, room)
                except BlockingIOError:
                    continue
                except OSError:
                    data = b""
                length = len(data)
                if not length:
                    self._hung_up(self._flying[fileno])
                    continue
                keep(data)
                mark(ancillary[0][2] if ancillary else now)
                if length < _SHORT or length > _LONG or data.endswith(tail) or len(reads) > patience:
                    self._parse(self._flying[fileno])
            turn += 1
            if ancillary and turn & _LOOK == 0:
                self.watch.woke(ancillary[0][2], self._offset)

    def _stir(self, fileno: int, event: int, now: int) -> None:
        """A connection that is not simply receiving: opening, sending, TLS, or one that nobody uses."""
        line = self._flying.get(fileno)
        if line is None:
            self._forget(fileno)
        elif line.writing and event & ~select.EPOLLIN:
            self._write(line)
        elif not line.stamped:
            self._secure_read(line, now)

    def _parse(self, line: Line) -> None:
        flight = line.flight
        assert flight is not None
        self.watch.took(len(flight.marks))
        flight.parse(self._offset)
        if flight.complete:
            self._finish(line)

    def _secure_read(self, line: Line, now: int) -> None:
        """Read everything that TLS has; there is no stamp but ours."""
        flight = line.flight
        assert flight is not None
        while True:
            try:
                data = line.socket.recv(_RECV)
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                break
            except OSError:
                data = b""
            if not data:
                self._hung_up(line)
                return
            flight.reads.append(data)
            flight.marks.append(now)
            if len(flight.reads) > flight.patience:
                break
        if flight.reads:
            self._parse(line)

    def _hung_up(self, line: Line) -> None:
        """The server closed the connection."""
        flight = line.flight
        assert flight is not None
        if flight.reads:
            flight.parse(self._offset)
        if line.reused and flight.quiet and not flight.complete:
            self._drop(line)
            flight.sent_at = 0
            self._start(Flight(flight.order, self._address, self._secret, self._sink), fresh=True)
            return
        flight.closed()
        self._finish(line)

    def _write(self, line: Line) -> None:
        """Go on connecting and sending; once all is sent, only reading is waited for."""
        try:
            if not line.push():
                if not line.writing:
                    line.writing = True
                    self._poll.modify(line.fileno, select.EPOLLIN | select.EPOLLOUT)
                return
        except OSError as error:
            flight = line.flight
            if flight is not None and line.connecting:
                flight.fail(_no_connection(self._address, error))
                self._finish(line)
                return
            # A server that refuses early answers and closes before it has read everything: read on.
            line.give_up_sending()
        if line.writing:
            line.writing = False
            self._poll.modify(line.fileno, select.EPOLLIN)
        flight = line.flight
        if line.stamped and flight is not None:
            self._hot[line.fileno] = (
                line.socket.recvmsg,
                flight.reads,
                flight.reads.append,
                flight.marks.append,
                flight.patience,
            )

    def _sweep(self, now: int) -> None:
        """Parse what lies about, notice stalls, take the clocks' offset again."""
        self._swept = now
        if now - self._offset_at > _OFFSET_NS:
            self._offset, self._offset_at = stamps.offset(), now
        for line in list(self._flying.values()):
            flight = line.flight
            if flight is None:
                continue
            if flight.overdue(now, self._offset):
                self._parse(line)
            if (
                not flight.complete
                and not flight.reads
                and now - max(flight.heard, flight.sent_at, line.began) > self._stall_ns
            ):
                seconds = f"{self._stall_ns * 1e-9:g} s"
                flight.fail(
                    f"{self._address.shown} sent nothing for {seconds}: see if it hangs, or allow more with --timeout."
                )
                self._finish(line)

    def _finish(self, line: Line) -> None:
        """Hand the answer on; keep the connection if it may be used again."""
        flight = line.flight
        assert flight is not None
        self._flying.pop(line.fileno, None)
        self._hot.pop(line.fileno, None)
        self._finished.append(flight.exchange())
        line.flight = None
        if flight.keep and not flight.order.fresh and not line.writing:
            self._idle.append(line)
        else:
            self._drop(line)

    def _drop(self, line: Line) -> None:
        self._flying.pop(line.fileno, None)
        self._hot.pop(line.fileno, None)
        with contextlib.suppress(OSError, ValueError, KeyError):
            self._poll.unregister(line.fileno)
        line.close()

    def _forget(self, fileno: int) -> None:
        """A kept connection stirs: the server closes it, or talks unasked."""
        for line in self._idle:
            if line.fileno == fileno:
                self._idle.remove(line)
                self._drop(line)
                return


def _no_connection(address: Address, error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return f"{address.shown} did not agree on TLS ({error.reason or error}): give --insecure, or write http://."
    if error.errno == errno.ECONNREFUSED:
        return f"Nothing listens at {address.shown} (connection refused): start the server or correct the port."
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return "This process may open no more sockets: raise the limit with `ulimit -n`, or ask for fewer at once."
    if error.errno == errno.EADDRNOTAVAIL:
        return "No local port is free for another connection: keep connections open, or send fewer at once."
    return f"No connection to {address.shown} ({error.strerror or error}): check the address and the network."
