"""The OpenAI-compatible dialect: how a request is written and what a streamed chunk says.

Two endpoints, ``completions`` (token ids or text) and ``chat/completions``, with the additions of vLLM, SGLang,
llama.cpp and LM Studio: token ids per chunk, running usage, reasoning under either name, the server's own timings.
Servers that also speak in another way have it in ``native/``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import msgspec

from phasewise.engines.text import NOT_JSON, clean
from phasewise.errors import BrokenStream
from phasewise.record.target import Prompting

Payload = tuple[int, ...] | str
"""A prompt: token ids or text."""


class Wire(NamedTuple):
    """One way of talking to a server.

    Attributes:
        write: a form, a prompt and the bound of the answer to the JSON object that is sent.
        read: the data of one event, and a secret that no error quotes, to what it says.
        by_line: events are lines of JSON; else server-sent events.
    """

    write: Callable[[Form, Payload, int], dict[str, Any]]
    read: Callable[[bytes, str], Piece]
    by_line: bool = False


def write(form: Form, payload: Payload, max_tokens: int) -> dict[str, Any]:
    """The body of an OpenAI-compatible request."""
    body: dict[str, Any] = {"model": form.model, "stream": True, form.limit: max_tokens} | form.fields
    if form.floor is not None:
        body[form.floor] = max_tokens
    if form.prompting == "chat":
        body["messages"] = [{"role": "user", "content": payload}]
    else:
        body["prompt"] = payload
    return body


Count = Annotated[int, msgspec.Meta(ge=0, lt=2**53)]
"""Of tokens, as a server tells it."""


class Usage(msgspec.Struct, frozen=True):
    """The server's own count; ``cached_tokens`` sits in the details, in old SGLang beside them."""

    prompt_tokens: Count | None = None
    completion_tokens: Count | None = None
    prompt_tokens_details: _Details | None = None
    cached_tokens: Count | None = None

    @property
    def cached(self) -> int | None:
        """Prompt tokens taken from a cache; None when the server does not say."""
        details = self.prompt_tokens_details
        return self.cached_tokens if details is None or details.cached_tokens is None else details.cached_tokens


class _Details(msgspec.Struct, frozen=True):
    cached_tokens: Count | None = None


SHOWN, BLANK, THINKING = 1, 2, 4
"""Bits of what an event is: it carries text, reasoning or a tool call; it carries a choice without any and without a
role (a token only if a count proves it); what it carries is reasoning."""


class Delta(msgspec.Struct, frozen=True, gc=False):
    """The part of a chat event that tells whether it is a token."""

    role: str | None = None
    content: str | None = None
    refusal: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[msgspec.Raw] | None = None


_NO_DELTA = Delta()


class Choice(msgspec.Struct, frozen=True, gc=False):
    """The part of a choice that tells whether it is a token."""

    text: str | None = None
    delta: Delta | None = None
    message: Delta | None = None
    finish_reason: str | None = None
    token_ids: list[int] | None = None

    @property
    def kind(self) -> int:
        """Bits of what it is."""
        if self.text:
            return SHOWN
        delta = self.delta or self.message or _NO_DELTA
        if delta.content or delta.refusal or delta.tool_calls:
            return SHOWN
        if delta.reasoning or delta.reasoning_content:
            return SHOWN | THINKING
        return BLANK if delta.role is None or self.token_ids else 0


class _Body(msgspec.Struct, frozen=True):
    choices: list[Choice] | None = None
    usage: Usage | None = None
    timings: dict[str, Any] | None = None
    metrics: dict[str, Any] | None = None
    stats: dict[str, Any] | None = None
    error: Any = None
    object: str | None = None


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """What one event says.

    Attributes:
        shown: it carries text, reasoning or a tool call.
        blank: it carries a choice without any of these, and no role alone: a token only if a count proves it.
        thinking: what it shows is reasoning.
        ids: number of token ids in it, None when it has no such field.
        usage: the server's count so far, or at the end.
        running: answer tokens so far, by the usage or by llama.cpp's timings.
        finish_reason: as the server said it.
        timings: numbers that the server reports of itself, by its names.
    """

    shown: bool
    blank: bool
    thinking: bool
    ids: int | None
    usage: Usage | None
    running: int | None
    finish_reason: str | None
    timings: dict[str, float]


_decoder = msgspec.json.Decoder(_Body)


def read(data: bytes, secret: str = "") -> Piece:
    """Read one event's data, or the body of an answer that was not streamed; no error quotes ``secret``.

    Raises:
        BrokenStream: not the JSON of a chunk, or an error that the server put into the stream.
    """
    try:
        body = _decoder.decode(data)
    except NOT_JSON as error:
        raise no_chunk(error) from None
    if body.error is not None or body.object == "error":
        raise broken_off(data, secret)
    numbers = figures({**(body.timings or {}), **(body.metrics or {}), **(body.stats or {})})
    running = body.usage.completion_tokens if body.usage else numbers.get("predicted_n")
    choice = body.choices[0] if body.choices else None
    kind = choice.kind if choice else 0
    return Piece(
        shown=bool(kind & SHOWN),
        blank=bool(kind & BLANK),
        thinking=bool(kind & THINKING),
        ids=None if choice is None or choice.token_ids is None else len(choice.token_ids),
        usage=body.usage,
        running=None if running is None else int(running),
        finish_reason=choice.finish_reason if choice else None,
        timings=numbers,
    )


OPENAI = Wire(write, read)
"""The dialect of nearly all servers."""


class Form(msgspec.Struct, frozen=True, kw_only=True):
    """How requests to one server are written.

    Attributes:
        prompting: what the prompt is sent as.
        path: of the endpoint, from the server's root.
        model: name sent with each request.
        limit: name of the field that bounds the answer.
        floor: name of a field that keeps the answer from ending before the bound, where one is needed.
        fields: everything else, as found by the probe.
        wire: how it is put into JSON, and how its answer reads.
    """

    prompting: Prompting
    path: str
    model: str
    limit: str = "max_tokens"
    floor: str | None = None
    fields: dict[str, Any] = {}
    wire: Wire = OPENAI

    def body(self, payload: Payload, max_tokens: int) -> bytes:
        """The request's JSON."""
        return msgspec.json.encode(self.wire.write(self, payload, max_tokens))


def figures(said: dict[str, Any]) -> dict[str, float]:
    """Those entries that are numbers, and numbers that can be."""
    return {key: float(value) for key, value in said.items() if is_number(value)}


def is_number(value: object) -> bool:
    """Whether ``value``, as JSON gave it, is a number that a float holds exactly."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 2**53


def no_chunk(error: Exception) -> BrokenStream:
    """The error for an event that is not the JSON of a chunk."""
    return BrokenStream(
        f"The server sent something that is no chunk of an answer ({error}): is this an OpenAI-compatible endpoint?"
    )


def broken_off(data: bytes, secret: str = "") -> BrokenStream:
    """The error for an error that the server put into the stream."""
    return BrokenStream(f"The server broke its answer off ({complaint(data, secret)}): look at the server's log.")


def complaint(data: bytes, secret: str = "") -> str:
    """The human part of an error body, whatever its shape; cleaned, short, and without ``secret``."""
    try:
        found = msgspec.json.decode(data)
    except NOT_JSON:
        return clean(data.decode("utf-8", "replace"), secret=secret)
    for _ in range(3):
        if not isinstance(found, dict):
            break
        found = next((found[key] for key in ("error", "message", "detail", "msg") if found.get(key)), "")
    text = found if isinstance(found, str) else msgspec.json.encode(found).decode("utf-8", "replace")
    return clean(text, secret=secret)
