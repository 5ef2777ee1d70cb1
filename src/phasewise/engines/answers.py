"""From the events of a stream to an Answer: which chunks are tokens, and when they came."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from phasewise.engines import dialect, sse
from phasewise.engines.base import Answer, Chunk
from phasewise.engines.exchange import blanks_are
from phasewise.engines.lines import Lines, framing
from phasewise.engines.reply import MAX_BODY, Reply
from phasewise.errors import BrokenStream


class Arrival(NamedTuple):
    """One event as it came: when, in which read, and its bytes, not yet decoded."""

    at: float
    read: int
    data: bytes


def receive(reply: Reply, max_tokens: int, secret: str = "", wire: dialect.Wire = dialect.OPENAI) -> Answer:
    """Take in the answer to a streaming request; no error quotes ``secret``.

    Nothing is decoded before the stream has ended, so that no token waits in the socket for our JSON.

    Raises:
        Stalled: no event for the reply's waiting time.
        BrokenStream: the stream ended early, is no SSE or JSON, holds an error, or no token at all.
    """
    if "application/json" in reply.headers.get("content-type", ""):
        return _whole(reply, secret, wire)
    arrivals, ended_at = _collect(reply, 2 * max_tokens + 100, secret, framing(wire))
    pieces = [wire.read(arrival.data, secret) for arrival in arrivals]
    return _assemble(reply, arrivals, pieces, ended_at)


def _collect(reply: Reply, events: int, secret: str, parser: sse.Parser | Lines) -> tuple[list[Arrival], float]:
    arrivals: list[Arrival] = []
    at, number = reply.headers_at, 0
    for at, number, data in reply.reads():
        for event in parser.feed(data):
            reply.progress()
            if event.data == b"[DONE]":
                reply.drain()
                return arrivals, at
            if event.name == b"error":
                raise dialect.broken_off(event.data, secret)
            arrivals.append(Arrival(at, number, event.data))
            if len(arrivals) > events:
                raise BrokenStream(f"The server sent over {events} events, far more than the tokens asked for.")
    arrivals += [Arrival(at, number, event.data) for event in parser.finish() if event.data != b"[DONE]"]
    return arrivals, at


def _whole(reply: Reply, secret: str, wire: dialect.Wire) -> Answer:
    """Read an answer that came as one JSON body although a stream was asked for."""
    reads = list(reply.reads(MAX_BODY))
    body = b"".join(read.data for read in reads)
    at, number = (reads[-1].at, reads[-1].number) if reads else (reply.headers_at, 0)
    return _assemble(reply, [Arrival(at, number, body)], [wire.read(body, secret)], at, streamed=False)


def _assemble(
    reply: Reply, arrivals: list[Arrival], pieces: list[dialect.Piece], ended_at: float, *, streamed: bool = True
) -> Answer:
    usage, finish = dialect.Usage(), None
    timings: dict[str, float] = {}
    for piece in pieces:
        usage, finish = piece.usage or usage, piece.finish_reason or finish
        timings |= piece.timings
    chunks = _chunks(arrivals, pieces, usage.completion_tokens)
    tokens = [chunk for chunk in chunks if chunk.tokens or not chunk.empty]
    if not tokens:
        raise BrokenStream("The answer holds no token: see with curl what the server makes of the same request.")
    return Answer(
        sent_at=reply.sent_at,
        headers_at=reply.headers_at,
        first_at=tokens[0].at,
        last_at=tokens[-1].at,
        ended_at=ended_at,
        chunks=tuple(chunks),
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        cached_tokens=usage.cached,
        finish_reason=finish,
        streamed=streamed,
        reported=timings,
        stamped=reply.stamped,
        received=reply.received,
    )


def _chunks(arrivals: list[Arrival], pieces: list[dialect.Piece], completion_tokens: int | None) -> list[Chunk]:
    """The events that may be tokens; ``tokens`` of a blank one is 1 or 0 when the counts settle what it is."""
    chunks = [
        Chunk(at=arrival.at, read=arrival.read, tokens=count, empty=not piece.shown, thinking=piece.thinking)
        for arrival, piece, count in zip(arrivals, pieces, _counts(pieces), strict=True)
        if piece.shown or piece.blank or piece.ids
    ]
    told = [1 if chunk.tokens is None else chunk.tokens for chunk in chunks if not _open(chunk)]
    verdict = blanks_are(completion_tokens, sum(told), len(chunks) - len(told))
    return [msgspec.structs.replace(chunk, tokens=verdict) if _open(chunk) else chunk for chunk in chunks]


def _open(chunk: Chunk) -> bool:
    """Whether nothing in the stream itself says if this chunk is a token."""
    return chunk.empty and chunk.tokens is None


def _counts(pieces: list[dialect.Piece]) -> list[int | None]:
    """Tokens in each event by its token ids or by what a running count grew; None where neither says."""
    telling = [piece for piece in pieces if piece.shown] or [piece for piece in pieces if piece.blank]
    told = all(piece.running is not None for piece in telling)
    counts: list[int | None] = []
    total = 0
    for piece in pieces:
        now = piece.running if told else None
        counts.append(piece.ids if piece.ids is not None else None if now is None else max(0, now - total))
        total = total if now is None else now
    return counts
