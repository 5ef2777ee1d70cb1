"""What the events of a stream say about tokens, many at once: the least that timing needs, decoded in one call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from phasewise.engines import dialect
from phasewise.engines.dialect import BLANK, SHOWN, THINKING
from phasewise.engines.text import NOT_JSON

UNSAID = -1


class Timings(msgspec.Struct, gc=False):
    """llama.cpp's running count, where it was asked for."""

    predicted_n: Any = None


class Event(msgspec.Struct, gc=False):
    """One event; what is not named here is skipped without being decoded."""

    choices: list[dialect.Choice] | None = None
    usage: dialect.Usage | None = None
    timings: Timings | None = None
    metrics: dict[str, msgspec.Raw] | None = None
    stats: dict[str, msgspec.Raw] | None = None


class Glance(NamedTuple):
    """Of each event its ``kind`` (bits), its token ids and the answer's running token count after it (`UNSAID` where
    there is none); and what closes an answer.

    ``last`` is the whole of the last event that carried the server's timings, for `dialect.read`.
    """

    kinds: list[int]
    ids: list[int]
    running: list[int]
    usage: dialect.Usage | None
    finish_reason: str | None
    last: bytes | None


_one = msgspec.json.Decoder(Event)
_many = msgspec.json.Decoder(list[Event])


def glance(events: Sequence[bytes], secret: str = "") -> Glance:
    """Look at the data of some events, in order.

    Raises:
        BrokenStream: one is no JSON of a chunk, or an error that the server put into the stream.
    """
    kinds: list[int] = []
    ids: list[int] = []
    running: list[int] = []
    usage, finish, last = None, None, None
    for place, event in enumerate(_decoded(events, secret)):
        count = UNSAID
        if event.usage is not None or event.timings is not None or event.metrics is not None or event.stats is not None:
            usage, count = event.usage or usage, _running(event)
            if event.timings is not None or event.metrics is not None or event.stats is not None:
                last = events[place]
        running.append(count)
        choices = event.choices
        if not choices:
            if count == UNSAID:
                dialect.read(events[place], secret)  # raises if it is an error that the server put into the stream
            kinds.append(0)
            ids.append(UNSAID)
            continue
        choice = choices[0]
        kinds.append(SHOWN if choice.text else choice.kind)
        token_ids = choice.token_ids
        ids.append(UNSAID if token_ids is None else len(token_ids))
        if choice.finish_reason is not None:
            finish = choice.finish_reason
            dialect.read(events[place], secret)  # some gateways put an error beside a last choice
    return Glance(kinds, ids, running, usage, finish, last)


def of(pieces: Sequence[dialect.Piece], events: Sequence[bytes]) -> Glance:
    """The same from events of another wire, each already read."""
    last = [event for event, piece in zip(events, pieces, strict=True) if piece.usage is not None or piece.timings]
    usages = [piece.usage for piece in pieces if piece.usage is not None]
    finishes = [piece.finish_reason for piece in pieces if piece.finish_reason is not None]
    return Glance(
        kinds=[SHOWN * p.shown | BLANK * p.blank | THINKING * p.thinking for p in pieces],
        ids=[UNSAID if piece.ids is None else piece.ids for piece in pieces],
        running=[UNSAID if piece.running is None else piece.running for piece in pieces],
        usage=usages[-1] if usages else None,
        finish_reason=finishes[-1] if finishes else None,
        last=last[-1] if last else None,
    )


def _running(event: Event) -> int:
    if event.usage is not None and event.usage.completion_tokens is not None:
        return event.usage.completion_tokens
    if event.timings is not None and dialect.is_number(event.timings.predicted_n):
        return int(event.timings.predicted_n)
    return UNSAID


def _decoded(events: Sequence[bytes], secret: str) -> list[Event]:
    """All events by one call of the decoder; one by one, for a good sentence, when that fails."""
    try:
        found = _many.decode(b"[" + b",".join(events) + b"]")
    except NOT_JSON:
        found = []
    if len(found) == len(events):
        return found
    for event in events:
        dialect.read(event, secret)  # says which it is, and what is wrong with it
    try:
        return [_one.decode(event) for event in events]
    except NOT_JSON as error:
        raise dialect.no_chunk(error) from None
