"""A request in the air: what the loop hands over per read, and what is made of it later, many reads at a time.

The loop only stamps and keeps; HTTP, SSE and JSON are parsed when there is a batch of them, when the answer may have
ended, or when the kept bytes grow. So a token's time never depends on our parsing, and parsing costs a fraction.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from phasewise.engines import dialect, stamps
from phasewise.engines.address import Address
from phasewise.engines.exchange import Arrivals, Exchange, Ints, Order, joined, settled
from phasewise.engines.glance import THINKING, UNSAID, Glance, glance, of
from phasewise.engines.lines import framing
from phasewise.engines.message import Message
from phasewise.engines.refusal import refusal
from phasewise.engines.wire import Page
from phasewise.errors import BrokenStream, EngineError

MAX_PAGE = 1 << 20
"""Bytes of an answer that is no stream of events."""

MAX_STREAM = 1 << 30
"""Bytes of a stream, framing included."""

_KEPT_READS = 128
"""Reads that may be kept before they are parsed, at least; twice as many at most."""

_QUIET_NS, _OLD_NS = 100_000_000, 700_000_000
"""Kept reads are parsed when none followed for so long, or when the first of them is so old."""

Sink = Callable[[int, Arrivals], None]
"""Takes the key of a request and the events that came since the last call; nothing of them is kept then."""


class Flight:
    """One request and what has come of its answer.

    Attributes:
        order: what was asked.
        sent_at: ns; when its first byte was written, 0 before.
        connect_ns: what opening its connection took, 0 on a kept one.
        reads: what was read and not yet parsed; ``marks``: of each read the kernel's stamp, or our own ns.
        patience: reads after which it should be parsed.
        complete: nothing more is to come.
        stamped: the kernel stamped what came.
        error: why it failed.
        heard: ns of the last event (of the sending before): what the stall clock runs from.
    """

    def __init__(self, order: Order, address: Address, secret: str, sink: Sink | None = None) -> None:
        self.order = order
        self.sent_at = self.connect_ns = self.heard = 0
        self.reads: list[bytes] = []
        self.marks: list[bytes | int] = []
        # Streams that emit in lock step must not all be parsed in the same moment.
        self.patience = _KEPT_READS + order.key % _KEPT_READS
        self.complete = self.stamped = False
        self.error = ""
        self._address = address
        self._secret = secret
        self._sink = sink
        self._message = Message(address.shown)
        self._sse = framing(order.wire)
        self._rows = _Rows()
        self._page = bytearray()
        self._number = self._received = self._headers_at = self._ended_at = self._seen = 0
        self._usage: dialect.Usage | None = None
        self._finish: str | None = None
        self._last: bytes | None = None

    @property
    def keep(self) -> bool:
        """Whether its connection may carry another request."""
        return self.complete and not self.error and self._message.keep and not self._message.astray

    @property
    def quiet(self) -> bool:
        """Whether nothing of an answer has come: a kept connection that the server had closed may be tried anew."""
        return not self._received and not self.reads

    def overdue(self, now_ns: int, offset_ns: int) -> bool:
        """Whether what is kept should be parsed: nothing followed it for a while, or it is old."""
        if not self.reads:
            return False
        last, first = (stamps.stamps([mark], offset_ns)[0] for mark in (self.marks[-1], self.marks[0]))
        return bool(now_ns - last > _QUIET_NS or now_ns - first > _OLD_NS)

    def parse(self, offset_ns: int) -> None:
        """Make something of what was kept since the last time; ``offset_ns`` is of `stamps.offset`."""
        reads, at = list(self.reads), stamps.stamps(self.marks, offset_ns)
        self.stamped = bool(self.marks) and isinstance(self.marks[-1], bytes)
        # Cleared, not replaced: the loop holds their append methods.
        self.reads.clear()
        self.marks.clear()
        start = 0
        try:
            while start < len(reads) and not self.complete and not (self._streaming and start + 1 < len(reads)):
                self._take(reads[start], int(at[start]))
                start += 1
            if start < len(reads) and not self.complete:
                self._many(reads[start:], at[start:])
        except EngineError as error:
            self.fail(str(error))

    def closed(self) -> None:
        """The connection ended."""
        if self.complete:
            return
        try:
            if self._message.framed or not self._message.has_head:
                raise BrokenStream(f"{self._address.shown} closed the connection inside an answer: look at its log.")
            self._end()
        except EngineError as error:
            self.fail(str(error))

    def fail(self, why: str) -> None:
        """Nothing more is wanted of it."""
        self.complete, self.error = True, self.error or why

    def exchange(self) -> Exchange:
        """What became of it."""
        usage = self._usage or dialect.Usage()
        arrivals = settled(self._rows.arrivals(), usage.completion_tokens)
        first, last, answered, in_first = self._rows.ends(arrivals)
        if not self.error and not first:
            self.error = "The answer holds no token: see with curl what the server makes of the same request."
        return Exchange(
            key=self.order.key,
            due=self.order.due,
            sent_at=self.sent_at * 1e-9,
            connect_s=self.connect_ns * 1e-9,
            headers_at=self._headers_at * 1e-9,
            first_at=first * 1e-9,
            last_at=last * 1e-9,
            answered_at=answered * 1e-9,
            first_read_tokens=in_first,
            ended_at=self._ended_at * 1e-9,
            status=self._message.status,
            error=self.error,
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            cached_tokens=usage.cached,
            finish_reason=self._finish,
            streamed=self._streamed,
            stamped=self.stamped,
            reported=self.order.wire.read(self._last, self._secret).timings if self._last else {},
            arrivals=arrivals,
            received=self._received,
        )

    @property
    def _streamed(self) -> bool:
        return "application/json" not in self._message.headers.get("content-type", "")

    @property
    def _streaming(self) -> bool:
        """Whether events are coming."""
        return self._message.status == 200 and self._streamed and not self._message.complete

    def _many(self, reads: list[bytes], at: Ints) -> None:
        """Many reads of a stream that is under way, at once where a quick look tells their events apart."""
        ends = event_ends(reads, begun=self._sse.pending)
        if ends is None:
            for data, when in zip(reads, at.tolist(), strict=True):
                if not self.complete:
                    self._take(data, when)
            return
        data = b"".join(reads)
        self._received += len(data)
        first, self._number = self._number + 1, self._number + len(at)
        self._message.feed(data)
        events = self._sse.data(self._message.take())
        if len(events) != len(ends):
            # Framing that hides the ends of events: those that nothing tells apart came with the last read.
            ends = np.full(len(events), len(at) - 1)
        self._heard(events, at[ends], (first + ends).astype(np.int32))
        if self._message.complete:
            self._ended_at = self._ended_at or int(at[-1])
            self._end()

    def _take(self, data: bytes, at: int) -> None:
        """One read."""
        message = self._message
        self._received += len(data)
        self._number += 1
        headless = not message.has_head
        message.feed(data)
        if headless and message.has_head:
            self._headers_at = at
        body = message.take()
        if body and message.status == 200 and self._streamed and "html" not in message.headers.get("content-type", ""):
            events = self._sse.data(body)
            self._heard(events, np.full(len(events), at), np.full(len(events), self._number, np.int32))
        elif body:
            self._page += body
            self.heard = at
        if message.complete:
            self._ended_at = self._ended_at or at
            self._end()
        elif len(self._page) > MAX_PAGE or self._received > MAX_STREAM:
            raise BrokenStream(f"{self._address.shown} sends an answer without end: this is no answer of a model.")

    def _heard(self, events: list[bytes], at: Ints, read: NDArray[np.int32]) -> None:
        """Decode events and keep what they say about tokens."""
        if self._sse.broken is not None:
            raise dialect.broken_off(self._sse.broken, self._secret)
        if not events or self._ended_at:
            return
        self.heard = int(at[-1])
        if events[-1] == b"[DONE]" or b"[DONE]" in events:
            done = events.index(b"[DONE]")
            self._ended_at = int(at[done])
            events, at, read = events[:done], at[:done], read[:done]
        found = self._look(events)
        self._usage, self._finish = found.usage or self._usage, found.finish_reason or self._finish
        self._last = found.last or self._last
        self._rows.add(at, read, found)
        self._seen += len(events)
        if self._seen > 2 * self.order.max_tokens + 100:
            raise BrokenStream(f"The server sent over {self._seen} events, far more than the tokens asked for.")
        if self._sink is not None:
            self._sink(self.order.key, self._rows.taken())

    def _look(self, events: list[bytes]) -> Glance:
        wire = self.order.wire
        if wire is dialect.OPENAI:
            return glance(events, self._secret)
        return of([wire.read(event, self._secret) for event in events], events)

    def _end(self) -> None:
        """The body is complete."""
        self.complete = True
        message = self._message
        if message.status != 200 or "html" in message.headers.get("content-type", ""):
            page = Page(message.status, message.headers, bytes(self._page))
            raise refusal(page, self._address, self.order.path, secret=self._secret)
        rest = [event.data for event in self._sse.finish()] if self._streamed else [bytes(self._page)]
        at = np.full(len(rest), self._ended_at or self.heard)
        self._ended_at, ended = 0, self._ended_at or self.heard
        self._heard(rest, at, np.full(len(rest), self._number, np.int32))
        self._ended_at = ended


def event_ends(reads: list[bytes], *, begun: bool) -> Ints | None:
    """The read in which each event of a stream under way was completed; None when a quick look cannot tell.

    A blank line ends an event. It can be looked for in the raw bytes, HTTP's framing and all, as long as every stretch
    up to one holds a line of data (the first may have begun before): the framing itself never makes ``LF LF``.
    """
    parts = b"".join(reads).split(b"\n\n")
    parts.pop()
    if not parts or not all(b"data: " in part for part in parts[begun:]):
        return None
    ends = np.cumsum([len(part) + 2 for part in parts])
    return np.searchsorted(np.cumsum([len(data) for data in reads]), ends).astype(np.int64)


class _Rows:
    """The events so far, column by column, and the tokens at the ends of the answer."""

    def __init__(self) -> None:
        self._parts: list[Arrivals] = []
        self._total = 0
        self._counted: bool | None = None
        self._first = self._last = self._answered = self._in_first = self._first_read = 0

    def add(self, at: Ints, read: NDArray[np.int32], found: Glance) -> None:
        """Take events; those that say nothing about tokens (a role, a usage block) are left out."""
        kind = np.array(found.kinds, np.uint8)
        tokens, running = np.array(found.ids, np.int32), np.array(found.running, np.int64)
        told = np.flatnonzero(kind)
        if not told.size:
            return
        if self._counted is None:
            self._counted = bool(
                running[told[0]] != UNSAID
            )  # a count that starts with the first token is a running one
        kind, tokens, running = kind[told], tokens[told], running[told]
        if self._counted:
            totals = np.maximum.accumulate(np.maximum(running, self._total))
            grown = np.diff(totals, prepend=self._total)
            tokens = np.where((tokens == UNSAID) & (running != UNSAID), grown, tokens).astype(np.int32)
            self._total = int(totals[-1])
        self._parts.append(Arrivals(at=at[told], read=read[told], tokens=tokens, kind=kind))

    def arrivals(self) -> Arrivals:
        """The events that were not taken yet."""
        return joined(self._parts)

    def taken(self) -> Arrivals:
        """The events since the last time; the ends are remembered."""
        arrivals = self.arrivals()
        self._first, self._last, self._answered, self._in_first = self.ends(arrivals)
        self._parts = []
        return arrivals

    def ends(self, arrivals: Arrivals) -> tuple[int, int, int, int]:
        """Times of the first and last token and of the first answer token (ns, 0: none), tokens in the first's read."""
        first, last, answered, in_first = self._first, self._last, self._answered, self._in_first
        places = np.flatnonzero(arrivals.are_tokens)
        if places.size:
            last = int(arrivals.at[places[-1]])
            if not first:
                first, self._first_read = int(arrivals.at[places[0]]), int(arrivals.read[places[0]])
            same = places[arrivals.read[places] == self._first_read]
            in_first += int(np.maximum(arrivals.tokens[same], 1).sum())
            spoken = places[(arrivals.kind[places] & THINKING) == 0]
            answered = answered or (int(arrivals.at[spoken[0]]) if spoken.size else 0)
        return first, last, answered, in_first
