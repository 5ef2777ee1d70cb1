"""Many streamed requests at once from one thread: an epoll loop that stamps and keeps, and parses when there is time.

Used wherever more than one request is in the air. It is written without asyncio on purpose: between the kernel and a
stamp lie one poll and one recvmsg, whatever the number of streams, and the kernel's own stamp takes even those out.
"""

from __future__ import annotations

import errno
import heapq
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Self

import msgspec

from phasewise.engines import poller, stamps
from phasewise.engines.address import Address
from phasewise.engines.exchange import Exchange, Order
from phasewise.engines.flight import Flight, Sink
from phasewise.engines.line import Line, Place, allow, resolve
from phasewise.engines.quiet import no_collection
from phasewise.engines.selfwatch import SelfWatch
from phasewise.engines.wire import CONNECT_S, tls_context, unreachable, unsecured

_SHORT = 8
"""Bytes: a shorter read may be the end of a body, and is parsed at once."""

_SMALL, _LARGE = 479, 4 * 2**10
"""Bytes of buffers. A small one holds most events, and is the largest that Python allocates without malloc; a stream
that fills it once gets a large one. What fills its buffer is read on, and not kept but parsed."""

_SWEEP_NS = 200_000_000
"""Every so often all flights are looked at: ends that the quick test missed, stalls, and the clocks' offset."""

_SPARE_NS = 1_000_000
"""With less time before something is due nothing is parsed that can wait; one stream's takes a fifth of that."""

_LOOK = 15
"""The client looks at its own lateness at one poll in 16."""

_TAIL = b"0\r\n\r\n"
"""How a chunked body ends, unless it has trailers."""

_NO_SOCKET = (errno.EMFILE, errno.ENFILE, errno.EADDRNOTAVAIL)

BROKEN_OFF = "broken off by us"
"""Error of a request that `Loop.cancel` ended."""

Hot = tuple[Callable[..., Any], int, list[bytes], Callable[[bytes], None], Callable[[bytes | int], None], int]
"""Of a stream that is being received: how to read, how much, what is kept, where reads and stamps go, when to parse."""


class Loop:
    """Requests to one server; a context manager that closes its connections.

    Args:
        address: where it is.
        headers: of every request.
        secret: the API key, kept out of messages.
        insecure: accept any TLS certificate.
        stall_s: seconds without an event after which a request counts as stalled.
        most: connections that may be open at once; more requests wait, and their delay is the client's.
        sink: takes events as they come, so that none are kept; with ``keep`` they are kept too.

    Raises:
        Unreachable: the server's host has no address.
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
        keep: bool = False,
    ) -> None:
        self.watch = SelfWatch()
        self._address = address
        self._places = resolve(address)
        allow(most)
        self._proved = False
        self._context = tls_context(insecure=insecure) if address.scheme == "https" else None
        self._headers = dict(headers)
        self._secret = secret
        self._stall_s = stall_s
        self._connect_s = min(CONNECT_S, stall_s)
        self._most = most
        self._sink, self._keep = sink, keep
        self._due: list[tuple[float, int, Order]] = []
        self._flying: dict[int, Line] = {}
        self._hot: dict[int, Hot] = {}
        self._ripe: dict[Line, None] = {}
        self._idle: deque[Line] = deque()
        self._finished: list[Exchange] = []
        self._poller = poller.Poller()
        # TLS reads what it reads, and keeps to itself whether that was all.
        self._once = self._poller.once if self._context is None else 0
        self._count = self._turn = 0
        self._offset = stamps.offset()
        self._swept = time.perf_counter_ns()

    @property
    def in_flight(self) -> int:
        """Requests that were sent, or are being connected, and are not complete."""
        return len(self._flying)

    @property
    def waiting(self) -> int:
        """Requests that are not due yet, or for which there is no connection."""
        return len(self._due)

    def submit(self, order: Order) -> None:
        """Send ``order`` when it is due; one without a time is due now."""
        self._count += 1
        if not order.due:
            order = msgspec.structs.replace(order, due=time.perf_counter())
        heapq.heappush(self._due, (order.due, self._count, order))

    def cancel(self) -> list[Exchange]:
        """Break off everything; what was in the air comes back as it is, what was not sent is forgotten."""
        self._due.clear()
        for line in list(self._flying.values()):
            if line.flight is not None:
                line.flight.parse(self._offset)
                line.flight.fail(BROKEN_OFF, time.perf_counter_ns())
                self._finish(line)
        done, self._finished = self._finished, []
        return done

    def step(self, until: float) -> list[Exchange]:
        """Work until ``until`` (``perf_counter`` seconds) or until something is complete; return what is.

        Nothing raises for what a server does: a request that failed says why in its ``error``.
        """
        with no_collection(), self.watch.working():
            while True:
                now = time.perf_counter()
                self._launch(now)
                if self._finished or now >= until:
                    break
                self._receive(until)
                if time.perf_counter_ns() - self._swept > _SWEEP_NS:
                    self._sweep(time.perf_counter_ns())
        done, self._finished = self._finished, []
        return done

    def flush(self) -> None:
        """Hand the sink all that has come, which is else done when there is time."""
        for line in list(self._flying.values()):
            if not line.connecting:
                self._parse(line)

    def close(self) -> None:
        """Close every connection."""
        for line in (*self._flying.values(), *self._idle):
            line.close()
        self._flying.clear()
        self._hot.clear()
        self._ripe.clear()
        self._idle.clear()
        self._poller.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _launch(self, now: float) -> None:
        """Start what is due."""
        while self._due and self._due[0][0] <= now and len(self._flying) < self._most:
            order = heapq.heappop(self._due)[2]
            self._start(order, fresh=order.fresh)
        if self._due and self._due[0][0] <= now:
            self.watch.full()

    def _start(self, order: Order, *, fresh: bool) -> None:
        """Send ``order`` on a connection that is idle, else on one of its own."""
        flight = Flight(order, self._address, self._secret, self._sink, keep=self._keep)
        while self._idle and not fresh:
            line = self._idle.pop()
            if line.alive():
                break
            self._drop(line)
        else:
            try:
                line = Line(self._address, self._places[0], self._context)
            except OSError as error:
                self._not_connected(flight, self._places[0], error)
                return
            self._poller.register(line.fileno, line.waits | self._once)
        line.begin(flight, self._headers)
        self._flying[line.fileno] = line
        if not line.connecting:
            self._push(line)

    def _receive(self, until: float) -> None:
        """Receive until ``until``, until something is due or to be swept, or until an answer is complete.

        This is the hot path: a dictionary, a system call and two appends per read.
        """
        hot, ripe, room, plain, out = self._hot, self._ripe, stamps.ROOM, poller.IN, poller.OUT
        short, tail, carriage_return = _SHORT, _TAIL, _TAIL[-4]
        clock, poll = time.perf_counter_ns, self._poller.poll
        end = min(int(until * 1e9), self._swept + _SWEEP_NS)
        if self._due and self.in_flight < self._most and self._due[0][0] * 1e9 < end:
            end, poll = int(self._due[0][0] * 1e9), self._poller.poll_sharp
        entered, turn = clock(), self._turn
        now = min(entered, end)
        ancillary: list[tuple[int, int, bytes]] = []
        # At least once: what came while nobody stepped is read before anything is called a stall.
        while True:
            spare = ripe and end - now > _SPARE_NS
            ready = poll(0 if spare else (end - now) * 1e-9)
            now = clock()
            if spare and not ready:
                self._parse(next(iter(ripe)))
                now = clock()
            for fileno, event in ready:
                try:
                    receive, size, reads, keep, mark, patience = hot[fileno]
                except KeyError:
                    self._stir(fileno)
                    continue
                if event != plain:
                    self._ask_again(self._flying[fileno])
                try:
                    data, ancillary, _, _ = receive(size, room)
                except BlockingIOError:
                    if event & out:
                        self._push(self._flying[fileno])
                    continue
                except OSError:
                    data = b""
                length = len(data)
                if not length:
                    self._hung_up(self._flying[fileno])
                    continue
                keep(data)
                mark(ancillary[0][2] if ancillary else now)
                if not short <= length < size or (data[-4] == carriage_return and data.endswith(tail)):
                    if length == size:
                        self._flying[fileno].read_on()
                        self._ask_again(self._flying[fileno])
                    self._parse(self._flying[fileno])
                elif len(reads) > patience:
                    self._ripen(self._flying[fileno])
            turn += 1
            if turn & _LOOK == 0 and ready:
                since = stamps.at(ancillary[0][2], self._offset) if ancillary else now
                self.watch.woke(since, clock(), stamped=bool(ancillary))
            if now >= end or self._finished:
                break
        self._turn = turn
        if now >= end and self._flying:
            # A stamp is of the last bytes of a read, so of a busy stream it cannot tell how long those before it lay.
            self.watch.woke(max(end, entered), now, stamped=self.watch.stamped)

    def _stir(self, fileno: int) -> None:
        """A connection that is not simply receiving: it opens, or nobody uses it and the server closes it or talks."""
        line = self._flying.get(fileno)
        if line is not None:
            self._push(line)
            return
        for idle in self._idle:
            if idle.fileno == fileno:
                self._idle.remove(idle)
                self._drop(idle)
                return

    def _push(self, line: Line) -> None:
        """Go on connecting and sending; from the first byte sent on, read too: an early refusal may come."""
        connecting, flight = line.connecting, line.carried
        try:
            line.push()
        except OSError as error:
            if connecting:
                self._drop(line)
                self._not_connected(flight, line.place, error, securing=line.securing)
                return
            # A server that refuses early answers and closes before it has read everything: read on.
            line.give_up_sending()
        if line.wants != line.waits:
            line.waits = line.wants
            self._ask_again(line)
        if not line.connecting:
            self._proved = self._proved or connecting
            self._heat(line)

    def _ask_again(self, line: Line) -> None:
        """Be told of what there is at ``line`` now, though it was told of before."""
        self._poller.modify(line.fileno, line.waits | self._once)

    def _heat(self, line: Line) -> None:
        """Read ``line`` by the hot path."""
        flight = line.carried
        reads, marks = flight.reads, flight.marks
        patience = flight.patience * (1 + (line in self._ripe))
        size = _SMALL if patience and not line.long else _LARGE
        self._hot[line.fileno] = (line.receive, size, reads, reads.append, marks.append, patience)

    def _ripen(self, line: Line) -> None:
        """Much is kept of ``line``: parse it when there is nothing to read, but before it is twice as much."""
        flight = line.carried
        if line in self._ripe or not flight.patience:
            self._parse(line)
        else:
            self._ripe[line] = None
            self._heat(line)

    def _parse(self, line: Line) -> None:
        flight = line.carried
        self._ripe.pop(line, None)
        self.watch.took(len(flight.reads))
        flight.parse(self._offset)
        if flight.complete:
            self._finish(line)
        else:
            self._heat(line)

    def _hung_up(self, line: Line) -> None:
        """The server closed the connection."""
        flight = line.carried
        flight.parse(self._offset)
        if line.reused and flight.quiet:
            self._drop(line)
            self._start(flight.order, fresh=True)
            return
        flight.closed()
        self._finish(line)

    def _not_connected(self, flight: Flight, place: Place, error: OSError, *, securing: bool = False) -> None:
        """Try the host's next address, if none has worked yet; else the request fails."""
        no_socket = error.errno in _NO_SOCKET
        if no_socket:
            self.watch.refused()
        elif place == self._places[0] and len(self._places) > 1 and not self._proved:
            del self._places[0]
        if place != self._places[0]:
            self._start(flight.order, fresh=True)
            return
        why = unsecured(self._address, error) if securing else unreachable(self._address, error, self._connect_s)
        flight.fail(str(why), time.perf_counter_ns())
        self._finished.append(flight.exchange())

    def _sweep(self, now: int) -> None:
        """Parse what lies about, notice what takes too long, take the clocks' offset again."""
        self._swept = now
        offset = stamps.offset()
        self.watch.clock_moved(offset - self._offset)
        for line in list(self._flying.values()):
            flight = line.carried
            if flight.overdue(now, self._offset):
                self._parse(line)
            if flight.complete:
                continue
            if flight.drained(now):
                self._finish(line)
            elif line.connecting and now - line.began > self._connect_s * 1e9:
                late = TimeoutError(f"nothing came within {self._connect_s:g} s")
                self._drop(line)
                self._not_connected(flight, line.place, late, securing=line.securing)
            elif not line.connecting and flight.silent_ns(now) > self._stall_s * 1e9:
                waited = f"{self._address.shown} sent nothing for {self._stall_s:g} s"
                flight.fail(f"{waited}: see whether it hangs, or allow more with --timeout.", now)
                self._finish(line)
            else:  # a read may end before what came does: at urgent bytes, for one
                self._ask_again(line)
        self._offset = offset

    def _finish(self, line: Line) -> None:
        """Hand the answer on; keep the connection if it may be used again."""
        flight = line.carried
        self._finished.append(flight.exchange())
        line.flight = None
        self._ripe.pop(line, None)
        if flight.keep and not flight.order.fresh and not line.blocked:
            self._flying.pop(line.fileno, None)
            self._hot.pop(line.fileno, None)
            self._idle.append(line)
        else:
            self._drop(line)

    def _drop(self, line: Line) -> None:
        self._flying.pop(line.fileno, None)
        self._hot.pop(line.fileno, None)
        self._ripe.pop(line, None)
        self._poller.drop(line.fileno)
        line.close()
