"""What the events of a stream say about tokens, many at once: the least that timing needs, decoded in one call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from phasewise.engines import dialect
from phasewise.engines.text import NOT_JSON

SHOWN, BLANK, THINKING = 1, 2, 4
"""Bits of an event's ``kind``: it carries text, reasoning or a tool call; it carries a choice without any and without a
role (a token only if a count proves it); what it carries is reasoning."""

UNSAID = -1


class Delta(msgspec.Struct, gc=False):
    """The part of a chat event that tells whether it is a token."""

    role: str | None = None
    content: str | None = None
    refusal: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    tool_calls: msgspec.Raw | None = None


class Choice(msgspec.Struct, gc=False):
    """The part of a choice that tells whether it is a token."""

    text: str | None = None
    delta: Delta | None = None
    message: Delta | None = None
    finish_reason: str | None = None
    token_ids: list[int] | None = None


class Timings(msgspec.Struct, gc=False):
    """llama.cpp's running count, where it was asked for."""

    predicted_n: float | None = None


class Event(msgspec.Struct, gc=False):
    """One event; what is not named here is skipped without being decoded."""

    choices: list[Choice] | None = None
    usage: dialect.Usage | None = None
    timings: Timings | None = None
    metrics: dict[str, msgspec.Raw] | None = None


class Glance(NamedTuple):
    """Of each event its ``kind`` (bits), its token ids and the answer's running token count after it (`UNSAID` where
    there is none); and what closes an answer.

    ``last`` is the whole of the last event that carried usage or timings, for `dialect.read`.
    """

    kinds: list[int]
    ids: list[int]
    running: list[int]
    usage: dialect.Usage | None
    finish_reason: str | None
    last: bytes | None


_one = msgspec.json.Decoder(Event)
_many = msgspec.json.Decoder(list[Event])
_NO_DELTA = Delta()


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
        if event.timings is not None or event.usage is not None or event.metrics is not None:
            last, usage, count = events[place], event.usage or usage, _running(event)
        running.append(count)
        if not event.choices:
            if count == UNSAID:
                dialect.read(events[place], secret)  # it may be an error that the server put into the stream
            kinds.append(0)
            ids.append(UNSAID)
            continue
        choice = event.choices[0]
        kinds.append(SHOWN if choice.text else _kind(choice))
        ids.append(UNSAID if choice.token_ids is None else len(choice.token_ids))
        if choice.finish_reason is not None:
            finish = choice.finish_reason
    return Glance(kinds, ids, running, usage, finish, last)


def _running(event: Event) -> int:
    if event.usage is not None and event.usage.completion_tokens is not None:
        return event.usage.completion_tokens
    if event.timings is not None and event.timings.predicted_n is not None:
        return int(event.timings.predicted_n)
    return UNSAID


def _kind(choice: Choice) -> int:
    delta = choice.delta or choice.message or _NO_DELTA
    if delta.content or delta.refusal or _calls(delta):
        return SHOWN
    if delta.reasoning or delta.reasoning_content:
        return SHOWN | THINKING
    return 0 if delta.role is not None else BLANK


def _calls(delta: Delta) -> bool:
    return delta.tool_calls is not None and bytes(delta.tool_calls) not in (b"null", b"[]")


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
    return [_one.decode(event) for event in events]
