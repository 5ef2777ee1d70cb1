"""A request in the air: what the loop hands over per read, and what is made of it later, many reads at a time.

The loop only stamps and keeps; HTTP, SSE and JSON are parsed when there is a batch of them and nothing to read, when
the answer may have ended, or when the kept bytes grow. So a token's time never depends on our parsing, and parsing
costs a fraction.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from phasewise.engines import dialect, sse, stamps, steady
from phasewise.engines.address import Address
from phasewise.engines.exchange import Arrivals, Exchange, Ints, Order
from phasewise.engines.glance import Glance, glance, of
from phasewise.engines.lines import framing
from phasewise.engines.message import Message
from phasewise.engines.refusal import refusal
from phasewise.engines.reply import DRAIN_BYTES, DRAIN_S, MAX_BODY
from phasewise.engines.tally import Tally
from phasewise.engines.wire import Page
from phasewise.errors import BrokenStream, EngineError

MAX_STREAM = 1 << 30
"""Bytes of a stream, framing included."""

MAX_SILENT = 2 * sse.MAX_EVENT
"""Bytes without an event; comments, for instance."""

_KEPT_READS = 128
"""Reads of a stream after which they are parsed when there is time; twice as many are parsed at once."""

_QUIET_NS, _OLD_NS = 100_000_000, 450_000_000
"""Kept reads are parsed when none followed for so long, or when the first of them is so old: what a sink takes may be
all that is left of a run that is killed."""

Sink = Callable[[int, Arrivals], None]
"""Takes the key of a request and the events that came since the last call."""


class Flight:
    """One request and what has come of its answer.

    Attributes:
        order: what was asked.
        sent_at: ns; when its first byte was written, 0 before.
        connect_ns: what opening its connection took, 0 on a kept one.
        reads: what was read and not yet parsed; ``marks``: of each read the kernel's stamp, or our own ns.
        complete: nothing more is to come.
        error: why it failed.
    """

    def __init__(
        self, order: Order, address: Address, secret: str, sink: Sink | None = None, *, keep: bool = False
    ) -> None:
        self.order = order
        self.sent_at = self.connect_ns = 0
        self.reads: list[bytes] = []
        self.marks: list[bytes | int] = []
        self.complete = self._stamped = self._surplus = False
        self.error = ""
        self._address = address
        self._secret = secret
        self._sink, self._forget = sink, sink is not None and not keep
        self._message = Message(address.shown)
        self._sse = framing(order.wire)
        self._tally = Tally()
        self._page = bytearray()
        self._reads = self._received = self._events = 0
        self._headers_at = self._heard_at = self._done_at = self._last_at = 0
        self._heard_bytes = self._done_bytes = 0
        self._usage: dialect.Usage | None = None
        self._finish: str | None = None
        self._timings: bytes | None = None

    @property
    def keep(self) -> bool:
        """Whether its connection may carry another request: the whole answer came, be it a refusal, and no more."""
        return self._message.keep and not (self._message.astray or self._surplus)

    @property
    def quiet(self) -> bool:
        """Whether nothing of an answer has come: a kept connection that the server had closed may be tried anew."""
        return not self._received and not self.reads

    @property
    def patience(self) -> int:
        """Reads after which it should be parsed: many while events come in chunks, whose end can be seen unparsed."""
        chunked = "chunked" in self._message.headers.get("transfer-encoding", "")
        if self._done_at or not (chunked and self._streams):
            return 0
        return _KEPT_READS

    def overdue(self, now_ns: int, offset_ns: int) -> bool:
        """Whether what is kept should be parsed: nothing followed it for a while, or it is old."""
        marks = self.marks
        if not marks:
            return False
        return now_ns - stamps.at(marks[-1], offset_ns) > _QUIET_NS or now_ns - stamps.at(marks[0], offset_ns) > _OLD_NS

    def silent_ns(self, now_ns: int) -> int:
        """For how long there was no event; comments, and bytes of a body that is no stream, are none."""
        return now_ns - max(self._heard_at, self.sent_at)

    def drained(self, now_ns: int) -> bool:
        """Whether the end that should follow the last event has been waited for long enough: the answer is here."""
        self.complete = self.complete or (self._done_at > 0 and now_ns - self._done_at > DRAIN_S * 1e9)
        return self.complete

    def parse(self, offset_ns: int) -> None:
        """Make something of what was kept since the last time; ``offset_ns`` is of `stamps.offset`."""
        at = stamps.stamps(self.marks, offset_ns)
        reads = self.reads[: len(at)]  # an interrupt may fall between the two
        self._stamped = self._stamped or any(type(mark) is bytes for mark in self.marks[:1])
        # Cleared, not replaced: the loop holds their append methods.
        self.reads.clear()
        self.marks.clear()
        if not reads or self.complete:
            return
        try:
            self._take(reads, at)
        except EngineError as error:
            self.fail(str(error))

    def closed(self) -> None:
        """The connection ended."""
        if self.complete:
            return
        try:
            if not self._received:
                raise BrokenStream(
                    f"{self._address.shown} closed the connection without an answer: look at the server's log."
                )
            if not self._done_at and (self._message.framed or not self._message.has_head):
                raise BrokenStream(f"{self._address.shown} closed the connection inside an answer: look at its log.")
            self._end()
        except EngineError as error:
            self.fail(str(error))

    def fail(self, why: str, at: int = 0) -> None:
        """Nothing more is wanted of it, since ``at`` (ns) where it is not its last read that says so."""
        if not self.complete:
            self.complete, self.error = True, why
            self._last_at = at or self._last_at

    def exchange(self) -> Exchange:
        """What became of it."""
        usage = self._usage or dialect.Usage()
        found = self._tally.outcome(usage.completion_tokens)
        ends = found.ends
        if ends is None and not self.error:
            self.error = "The answer holds no token: see with curl what the server makes of the same request."
        return Exchange(
            key=self.order.key,
            due=self.order.due,
            sent_at=self.sent_at * 1e-9,
            connect_s=self.connect_ns * 1e-9,
            headers_at=self._headers_at * 1e-9,
            first_at=ends.first * 1e-9 if ends else 0.0,
            last_at=ends.last * 1e-9 if ends else 0.0,
            answered_at=found.answered * 1e-9,
            first_read_tokens=ends.in_read if ends else 0,
            ended_at=(self._done_at or self._last_at) * 1e-9,
            status=self._message.status,
            error=self.error,
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            cached_tokens=usage.cached,
            finish_reason=self._finish,
            streamed=not self._is("application/json"),
            stamped=self._stamped,
            reported=self.order.wire.read(self._timings, self._secret).timings if self._timings else {},
            arrivals=found.arrivals,
            received=self._received,
        )

    @property
    def _streams(self) -> bool:
        """Whether the body is events, as far as the head says."""
        return self._message.status == 200 and not self._is("application/json") and not self._is("html")

    def _is(self, kind: str) -> bool:
        return kind in self._message.headers.get("content-type", "")

    def _take(self, reads: list[bytes], at: Ints) -> None:
        """What came, by the parsers, or at once where it is all of one form and nothing is over."""
        between = self._message.between and self._sse.between and self._streams and not self._done_at
        cut = steady.cut(b"".join(reads)) if between else None
        if cut is None:
            self._pick(reads, at)
            return
        events, ends = cut
        self._received += ends[-1]
        self._last_at = int(at[-1])
        reached = list(accumulate(map(len, reads)))
        # The last two bytes of a chunk are no part of its event.
        place = np.arange(len(ends)) if ends == reached else np.searchsorted(reached, np.array(ends) - 2)
        self._heard(events, at[place], (self._reads + 1 + place).astype(np.int32))
        self._reads += len(reads)
        self._bounded()

    def _pick(self, reads: list[bytes], at: Ints) -> None:
        """What came, read by read."""
        message, broken = self._message, None
        before = message.size
        sizes: list[int] = []
        for data in reads:
            try:
                message.feed(data)
            except EngineError as error:
                broken = error
            if not self._headers_at and message.has_head:
                self._headers_at = int(at[len(sizes)])
            sizes.append(message.size)
            if message.complete or broken is not None:
                break
        self._surplus = len(sizes) < len(reads)
        self._received += sum(map(len, reads))
        self._last_at = int(at[len(sizes) - 1])
        body = message.take()
        if not self._streams:
            self._page += body
        elif not self._done_at:
            events, needed = self._sse.cut(body)
            place = np.searchsorted(sizes, before + np.array(needed, np.int64))
            self._heard(events, at[place], (self._reads + 1 + place).astype(np.int32))
        self._reads += len(sizes)
        if broken is not None and not self._done_at:
            raise broken
        if message.complete:
            self._end()
        elif broken is not None:
            self.complete = True
        else:
            self._bounded()

    def _bounded(self) -> None:
        """Hold the answer to its bounds."""
        if self._done_at:
            self.complete = self._received - self._done_bytes > DRAIN_BYTES
            return
        silent = self._received - self._heard_bytes
        if len(self._page) > MAX_BODY or silent > MAX_SILENT or self._received > MAX_STREAM:
            raise BrokenStream(f"{self._address.shown} sends an answer without end: this is no answer of a model.")

    def _heard(self, events: list[bytes], at: Ints, read: NDArray[np.int32]) -> None:
        """Decode events and keep what they say about tokens; after the last, whatever comes is nothing to us."""
        if self._done_at:
            return
        if b"[DONE]" in events:
            done = events.index(b"[DONE]")
            self._done_at, self._done_bytes = int(at[done]), self._received
            events, at, read = events[:done], at[:done], read[:done]
        if events:
            self._heard_at, self._heard_bytes = time.perf_counter_ns(), self._received
            self._events += len(events)
            found = self._look(events)
            self._usage, self._finish = found.usage or self._usage, found.finish_reason or self._finish
            self._timings = found.last or self._timings
            part = self._tally.add(at, read, found)
            if self._sink is not None and part.at.size:
                self._sink(self.order.key, part)
            if self._forget:
                self._tally.forget()
            self._not_too_many()
        if self._sse.broken is not None and not self._done_at:
            raise dialect.broken_off(self._sse.broken, self._secret)

    def _look(self, events: list[bytes]) -> Glance:
        wire = self.order.wire
        if wire == dialect.OPENAI:  # not the same object where it came from another process
            return glance(events, self._secret)
        return of([wire.read(event, self._secret) for event in events], events)

    def _not_too_many(self) -> None:
        counted = self._usage.completion_tokens if self._usage else None
        if max(self._events, self._tally.tokens, counted or 0) > 2 * self.order.max_tokens + 100:
            asked = f"the {self.order.max_tokens:,} tokens asked for"
            raise BrokenStream(f"The server sent, or counted, far more than {asked}: it does not heed max_tokens.")

    def _end(self) -> None:
        """The body is complete."""
        message = self._message
        if not self._streams and not (message.status == 200 and self._is("application/json")):
            page = Page(message.status, message.headers, bytes(self._page))
            raise refusal(page, self._address, self.order.path, secret=self._secret)
        rest = self._sse.cut(b"\n\n")[0] if self._streams else [bytes(self._page)]
        self._heard(rest, np.full(len(rest), self._last_at), np.full(len(rest), self._reads, np.int32))
        self.complete = True
