"""How this server wants its requests: found by asking for a few tokens and listening to what it refuses."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from phasewise.engines import native
from phasewise.engines.base import Answer, Prompt
from phasewise.engines.client import Client
from phasewise.engines.dialect import Form
from phasewise.engines.prompts import TokenIds, Words
from phasewise.errors import BrokenStream, EngineError, NotAnEngine, Refused
from phasewise.record.target import Prompting

TOKENS = 8
"""Answer length of the first request; enough to see whether it is streamed."""

PROMPT = 16
"""Prompt length of the first request, tokens or words."""

_FIELDS: dict[str, Any] = {
    "temperature": 0,
    "ignore_eos": True,
    "stream_options": {"include_usage": True, "continuous_usage_stats": True},
}

_LLAMA_CPP: dict[str, Any] = {"cache_prompt": False, "timings_per_token": True}
"""No prompt of ours may be served from its cache; and it counts tokens in each chunk's timings, not in usage."""

_PLAIN: dict[str, Any] = {"temperature": 0, "stream_options": {"include_usage": True}}
"""What every server of the protocol should know."""

_FINAL = (401, 403, 429, 503)
"""Answers that no other way of asking would change."""


class Settled(NamedTuple):
    """A form that works, the prompt and the answer that showed it, and why token ids were not taken, if so."""

    form: Form
    prompt: Prompt
    answer: Answer
    ids_refused: str = ""


def settle(client: Client, api: str, model: str, engine: str, ids: TokenIds, words: Words) -> Settled:
    """Try the server's own API if it has one, then token ids, text and chat; of each the fullest form that it takes.

    Raises:
        EngineError: the most telling of the errors of all three.
    """
    errors: dict[Prompting, EngineError] = {}
    ids_refused = ""
    if settled := _native(client, api, model, engine, ids, words):
        return settled
    ways: tuple[tuple[Prompting, str, Callable[[], Prompt]], ...] = (
        ("token_ids", "/completions", lambda: ids(PROMPT)),
        ("text", "/completions", lambda: _text(words)),
        ("chat", "/chat/completions", lambda: _text(words)),
    )
    for prompting, endpoint, draw in ways:
        form = Form(prompting=prompting, path=f"{api}{endpoint}", model=model, fields=dict(_FIELDS))
        if engine == "llama.cpp":
            form.fields.update(_LLAMA_CPP)
        try:
            settled = _Attempt(client, form, draw, ids).run()
        except (Refused, NotAnEngine, BrokenStream) as error:
            if isinstance(error, Refused) and (error.status in _FINAL or 300 <= error.status < 400):
                raise
            errors[prompting] = error
            ids_refused = ids_refused or str(error)
            continue
        counted = settled.answer.prompt_tokens
        if prompting == "token_ids" and counted is not None:
            ids.fixed = counted - PROMPT
            if not 0 <= ids.fixed <= 2:
                ids_refused = f"{PROMPT} ids were counted as {counted} tokens"
                continue
        return settled._replace(ids_refused=ids_refused)
    # Of a path or a model that is missing every way says the same; a way that failed otherwise says more.
    telling = [errors[way] for way in ("text", "chat") if getattr(errors[way], "status", 0) != 404]
    raise (telling or [errors["chat"]])[0]


def _native(client: Client, api: str, model: str, engine: str, ids: TokenIds, words: Words) -> Settled | None:
    """By the server's own API; None without one, when the OpenAI-compatible one was asked for, or when it fails."""
    root = api.removesuffix("/v1")
    for way in native.FORMS.get(engine, ()) if client.address.path != api else ():
        form = msgspec.structs.replace(way, model=model, path=f"{root}{way.path}")
        try:
            settled = _Attempt(client, form, lambda: _text(words), ids).run()
        except (Refused, NotAnEngine, BrokenStream):
            continue
        return settled._replace(ids_refused=f"{form.path} takes text")
    return None


def _text(words: Words) -> Prompt:
    return Prompt(payload=" ".join(words.draw(PROMPT)), tokens=PROMPT, exact=False)


class _Attempt:
    """One way of prompting, with fewer fields each time that the server refuses some."""

    def __init__(self, client: Client, form: Form, draw: Callable[[], Prompt], ids: TokenIds) -> None:
        self._client = client
        self._form = form
        self._draw = draw
        self._ids = ids

    def run(self) -> Settled:
        while True:
            prompt = self._draw()
            try:
                body = self._form.body(prompt.payload, TOKENS)
                answer = self._client.stream(self._form.path, body, TOKENS, self._form.wire)
            except BrokenStream as error:
                # vLLM refuses an id outside the vocabulary in the stream, after a status of 200.
                if self._narrowed(str(error)):
                    continue
                raise
            if isinstance(answer, Answer):
                return Settled(self._form, prompt, answer)
            adapted = answer.status in (400, 422, 500) and self._adapt(answer.body.decode("utf-8", "replace"))
            if not adapted:
                raise self._client.refusal(answer, self._form.path)

    def _narrowed(self, said: str) -> bool:
        """Whether these words are about an id, and there are smaller ones."""
        about = self._form.prompting == "token_ids" and re.search(
            r"vocab|token.?id|out of range|invalid token", said, re.I
        )
        return bool(about) and self._ids.narrow()

    def _adapt(self, said: str) -> bool:
        """Change the form after a refusal in these words; False when nothing is left to change."""
        form, fields = self._form, self._form.fields
        named = [field for field in fields if field in said]
        if "max_completion_tokens" in said and form.limit == "max_tokens":
            self._form = msgspec.structs.replace(form, limit="max_completion_tokens")
        elif "continuous_usage_stats" in said and fields.get("stream_options") == _FIELDS["stream_options"]:
            self._take(fields | {"stream_options": _PLAIN["stream_options"]})
        elif named:
            self._take({field: value for field, value in fields.items() if field not in named})
        elif self._narrowed(said):
            pass
        elif fields:
            # A refusal that names no field may still mean one: ask with the usual ones only, then with none.
            self._take(_PLAIN if fields.keys() > _PLAIN.keys() else {})
        else:
            return False
        return True

    def _take(self, fields: dict[str, Any]) -> None:
        self._form = msgspec.structs.replace(self._form, fields=fields)
