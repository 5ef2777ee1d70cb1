"""One request and its answer as the loop saw them: times, counts and the arrival of every event, as arrays."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from phasewise.engines.base import Answer
from phasewise.engines.dialect import OPENAI, Wire
from phasewise.engines.glance import BLANK, SHOWN, THINKING, UNSAID

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """A request to send.

    Attributes:
        key: the caller's number for it.
        path: from the server's root.
        body: JSON.
        due: when it should be sent, ``perf_counter`` seconds; 0 for at once.
        max_tokens: the answer's bound: a stream of far more events is broken off.
        fresh: open a connection of its own instead of reusing one.
        wire: how the answer reads.
    """

    key: int
    path: str
    body: bytes
    max_tokens: int
    due: float = 0.0
    fresh: bool = False
    wire: Wire = OPENAI


class Arrivals(msgspec.Struct, frozen=True, kw_only=True):
    """The events of an answer that may be tokens, in order, one element each.

    Attributes:
        at: when the read that completed it arrived, ns of ``perf_counter_ns``.
        read: number of that read; equal numbers were coalesced.
        tokens: tokens in it, -1 where nothing says.
        kind: bits of `glance`.
    """

    at: NDArray[np.int64]
    read: NDArray[np.int32]
    tokens: NDArray[np.int32]
    kind: NDArray[np.uint8]

    @property
    def are_tokens(self) -> Bools:
        """Which of them count as a token: those that show something, and blank ones that a count proves."""
        shown = (self.kind & SHOWN) != 0
        return np.asarray(shown & (self.tokens != 0) | (self.tokens > 0), np.bool_)

    @property
    def are_open(self) -> Bools:
        """Blank ones of which nothing in the stream says whether they are tokens; `blanks_are` may."""
        return np.asarray((self.kind & BLANK != 0) & (self.tokens == UNSAID), np.bool_)


def joined(parts: Sequence[Arrivals]) -> Arrivals:
    """All of ``parts`` as one."""
    if len(parts) == 1:
        return parts[0]
    return Arrivals(
        at=np.concatenate([part.at for part in parts] or [np.empty(0, np.int64)]),
        read=np.concatenate([part.read for part in parts] or [np.empty(0, np.int32)]),
        tokens=np.concatenate([part.tokens for part in parts] or [np.empty(0, np.int32)]),
        kind=np.concatenate([part.kind for part in parts] or [np.empty(0, np.uint8)]),
    )


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """One request and its answer; times are ``perf_counter`` seconds, 0 where it did not come that far.

    Attributes:
        key: the caller's number.
        due: when it should have been sent; for an order without a time, when it was submitted.
        sent_at: right before its first byte was written.
        connect_s: time that opening its connection took; 0 on a kept one.
        headers_at: arrival of the end of the head.
        first_at, last_at: arrival of the first and of the last token.
        answered_at: arrival of the first token that shows something other than reasoning; 0 where there is none;
            ``first_at`` without any reasoning.
        first_read_tokens: tokens that came in the read of the first.
        ended_at: arrival of the end; of one that failed without, when that was seen.
        status: HTTP status; 0 without one.
        error: why it failed, in one sentence; empty when it did not.
        prompt_tokens, completion_tokens, cached_tokens: by the server's usage.
        finish_reason: as the server said it.
        streamed: False when the body came as one piece.
        stamped: True when the times are the kernel's.
        reported: the server's own timings, by its names and in its units.
        arrivals: every event; empty when a sink took them.
        received: bytes.
        worker: which of several sent it.
    """

    key: int
    due: float
    sent_at: float = 0.0
    connect_s: float = 0.0
    headers_at: float = 0.0
    first_at: float = 0.0
    last_at: float = 0.0
    answered_at: float = 0.0
    first_read_tokens: int = 0
    ended_at: float = 0.0
    status: int = 0
    error: str = ""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    finish_reason: str | None = None
    streamed: bool = True
    stamped: bool = False
    reported: dict[str, float] = {}
    arrivals: Arrivals
    received: int = 0
    worker: int = 0

    @property
    def slip(self) -> float:
        """By how much the client was late to send it, seconds; to open its connection is no lateness."""
        return self.sent_at - self.connect_s - self.due

    @property
    def ttft(self) -> float:
        """Send to first token, seconds."""
        return self.first_at - self.sent_at

    @property
    def tpot(self) -> float | None:
        """(last token − first) / (tokens − 1), seconds, by the usage count; None where it is undefined.

        Tokens that came in one read with the first bear its time: they are no interval.
        """
        tokens = self.completion_tokens
        if tokens is None or not self.streamed or tokens - self.first_read_tokens < 1:
            return None
        return (self.last_at - self.first_at) / (tokens - self.first_read_tokens)


def exchanged(key: int, answer: Answer) -> Exchange:
    """``answer``, which was waited for on an open connection, as a loop would have told it."""
    chunks = answer.chunks
    at = np.array([round(chunk.at * 1e9) for chunk in chunks], np.int64)
    tokens = np.array([UNSAID if chunk.tokens is None else chunk.tokens for chunk in chunks], np.int32)
    kind = [(BLANK if chunk.empty else SHOWN) | THINKING * chunk.thinking for chunk in chunks]
    arrivals = Arrivals(
        at=at, read=np.array([chunk.read for chunk in chunks], np.int32), tokens=tokens, kind=np.array(kind, np.uint8)
    )
    counted = np.where(arrivals.are_tokens, np.maximum(tokens, 1), 0)
    first = arrivals.read[arrivals.are_tokens][:1]
    return Exchange(
        key=key,
        due=answer.sent_at,
        sent_at=answer.sent_at,
        headers_at=answer.headers_at,
        first_at=answer.first_at,
        last_at=answer.last_at,
        answered_at=answer.answered_at or 0.0,
        first_read_tokens=int(counted[arrivals.read == first].sum()) if len(first) else 0,
        ended_at=answer.ended_at,
        status=200,
        prompt_tokens=answer.prompt_tokens,
        completion_tokens=answer.completion_tokens,
        cached_tokens=answer.cached_tokens,
        finish_reason=answer.finish_reason,
        streamed=answer.streamed,
        stamped=answer.stamped,
        reported=answer.reported,
        arrivals=arrivals,
        received=answer.received,
    )


def blanks_are(completion_tokens: int | None, others: int, blanks: int) -> int | None:
    """What the server's final count makes of ``blanks`` empty events beside ``others`` tokens.

    A token each (1), none (0), or it cannot tell (None).
    """
    if completion_tokens is None or completion_tokens not in (others, others + blanks):
        return None
    return int(completion_tokens != others)
