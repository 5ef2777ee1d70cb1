"""TGI's own API: ``/generate_stream``, a server-sent event per token with its id, the counts in the last one's details.

Read from text-generation-inference at db931fcf (2026-01-08): ``router/src/lib.rs`` (``GenerateParameters``,
``StreamResponse``, ``StreamDetails``), ``router/src/server.rs`` (``generate_stream_internal``). Its times per request
go to its log and its metrics page, not into a stream.
"""

from __future__ import annotations

from typing import Any

import msgspec

from phasewise.engines.dialect import Count, Form, Payload, Piece, Usage, Wire, broken_off
from phasewise.engines.text import NOT_JSON
from phasewise.errors import BrokenStream


class _Token(msgspec.Struct, frozen=True):
    text: str = ""


class _Details(msgspec.Struct, frozen=True):
    finish_reason: str | None = None
    generated_tokens: Count | None = None
    input_length: Count | None = None


class _Event(msgspec.Struct, frozen=True):
    token: _Token | None = None
    details: _Details | None = None
    error: Any = None


_decoder = msgspec.json.Decoder(_Event)


def write(form: Form, payload: Payload, max_tokens: int) -> dict[str, Any]:
    """The body of a request; greedy."""
    return {"inputs": payload, "parameters": {"max_new_tokens": max_tokens, "do_sample": False, "details": True}}


def read(data: bytes, secret: str = "") -> Piece:
    """What one event says.

    Raises:
        BrokenStream: no such event, or an error that the server put into the stream.
    """
    try:
        event = _decoder.decode(data)
    except NOT_JSON as error:
        raise BrokenStream(f"The server sent something that is no token of TGI's API ({error}).") from None
    if event.error is not None or event.token is None:
        raise broken_off(data, secret)
    details = event.details
    return Piece(
        shown=bool(event.token.text),
        blank=not event.token.text,
        thinking=False,
        ids=1,
        usage=Usage(details.input_length, details.generated_tokens) if details else None,
        running=details.generated_tokens if details else None,
        finish_reason=details.finish_reason if details else None,
        timings={},
    )


WIRE = Wire(write, read)

FORMS = (Form(prompting="text", path="/generate_stream", model="", wire=WIRE),)
