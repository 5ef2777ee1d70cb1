"""Ollama's own API: ``/api/generate`` and ``/api/chat``, a line of JSON per token, counts and durations in the last.

Read from ollama at fb307609 (2026-08-21): ``api/types.go`` (``GenerateRequest``, ``ChatRequest``, ``Metrics``),
``server/routes.go`` (``streamResponse``, load_duration), ``llm/llama_server.go`` (durations from llama.cpp's timings).
"""

from __future__ import annotations

from typing import Any

import msgspec

from phasewise.engines.dialect import Count, Form, Payload, Piece, Usage, Wire, broken_off, figures
from phasewise.engines.text import NOT_JSON
from phasewise.errors import BrokenStream

KEEP_ALIVE = "5m"
"""Its own default, but a server told to unload at once would load the model anew for every request."""


class _Message(msgspec.Struct, frozen=True):
    content: str | None = None
    thinking: str | None = None
    tool_calls: list[msgspec.Raw] | None = None


class _Line(msgspec.Struct, frozen=True):
    response: str | None = None
    thinking: str | None = None
    tool_calls: list[msgspec.Raw] | None = None
    message: _Message | None = None
    done: bool = False
    done_reason: str | None = None
    prompt_eval_count: Count | None = None
    eval_count: Count | None = None
    total_duration: Any = None
    load_duration: Any = None
    prompt_eval_duration: Any = None
    eval_duration: Any = None
    error: Any = None


_decoder = msgspec.json.Decoder(_Line)


def write(form: Form, payload: Payload, max_tokens: int) -> dict[str, Any]:
    """The body of a request; text goes in raw, without the model's template.

    ``truncate`` and ``shift`` off: a prompt over the context is refused, not cut in silence.
    """
    body: dict[str, Any] = {
        "model": form.model,
        "stream": True,
        "keep_alive": KEEP_ALIVE,
        "truncate": False,
        "shift": False,
        "options": {"num_predict": max_tokens, "temperature": 0, "seed": 1},
    }
    if form.prompting == "chat":
        return body | {"messages": [{"role": "user", "content": payload}]}
    return body | {"prompt": payload, "raw": True}


def read(data: bytes, secret: str = "") -> Piece:
    """What one line says.

    A line without text before the last may be a token of an incomplete character. ``prompt_eval_count`` is missing when
    the whole prompt was cached (it is left out when it is 0), and older servers leave the cached part out of it.

    Raises:
        BrokenStream: no such line, or an error that the server put into the stream.
    """
    try:
        line = _decoder.decode(data)
    except NOT_JSON as error:
        raise BrokenStream(f"The server sent something that is no line of Ollama's API ({error}).") from None
    if line.error is not None:
        raise broken_off(data, secret)
    message = line.message or _Message()
    spoken = bool(line.response or line.tool_calls or message.content or message.tool_calls)
    thought = bool(line.thinking or message.thinking)
    return Piece(
        shown=spoken or thought,
        blank=not (spoken or thought or line.done),
        thinking=thought and not spoken,
        ids=None,
        usage=Usage(line.prompt_eval_count, line.eval_count) if line.done else None,
        running=line.eval_count if line.done else None,
        finish_reason=line.done_reason if line.done else None,
        timings=figures({key: getattr(line, key) for key in _DURATIONS}) if line.done else {},
    )


_DURATIONS = ("total_duration", "load_duration", "prompt_eval_duration", "eval_duration")
"""In nanoseconds; ``eval_duration`` runs from the first token to the last."""

WIRE = Wire(write, read, by_line=True)

FORMS = (
    Form(prompting="text", path="/api/generate", model="", wire=WIRE),
    Form(prompting="chat", path="/api/chat", model="", wire=WIRE),
)
"""Text first: it is not wrapped into a template."""
