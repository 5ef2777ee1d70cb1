"""How this server wants its requests: found by asking for a few tokens and listening to what it refuses."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from phasewise.engines.base import Answer, Prompt
from phasewise.engines.client import Client
from phasewise.engines.dialect import Form
from phasewise.engines.prompts import TokenIds, Words
from phasewise.engines.wire import Page
from phasewise.errors import BrokenStream, EngineError
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

_FINAL = (401, 403, 429, 503)
"""Answers that no other way of asking would change."""


class Settled(NamedTuple):
    """A form that works: the prompt and answer that showed it, and what the server refused on the way."""

    form: Form
    prompt: Prompt
    answer: Answer
    refused: dict[str, str]


def settle(client: Client, api: str, model: str, engine: str, ids: TokenIds, words: Words) -> Settled:
    """Try token ids, then text, then chat; of each the fullest form that the server takes.

    Raises:
        EngineError: the error of the first way that failed for another reason than a missing path, else of the last.
    """
    refused: dict[str, str] = {}
    errors: list[EngineError] = []
    ways: tuple[tuple[Prompting, str, Callable[[], Prompt]], ...] = (
        ("token_ids", "/completions", lambda: ids(PROMPT)),
        ("text", "/completions", lambda: text(words)),
        ("chat", "/chat/completions", lambda: text(words)),
    )
    for prompting, endpoint, draw in ways:
        form = Form(prompting=prompting, path=f"{api}{endpoint}", model=model, fields=dict(_FIELDS))
        if engine == "llama.cpp":
            form.fields.update(_LLAMA_CPP)
        try:
            settled = _Attempt(client, form, draw, ids).run()
        except BrokenStream as error:
            settled = error
        if isinstance(settled, EngineError):
            errors.append(settled)
            refused[prompting] = str(settled)
            continue
        counted = settled.answer.prompt_tokens
        if prompting == "token_ids" and counted is not None and not 0 <= counted - PROMPT <= 2:
            refused[prompting] = f"{PROMPT} ids were counted as {counted} tokens"
            continue
        if prompting == "token_ids" and counted is not None:
            ids.fixed = counted - PROMPT
        return settled._replace(refused=refused | settled.refused)
    raise next((error for error in errors if getattr(error, "status", 0) != 404), errors[-1])


def text(words: Words) -> Prompt:
    """A prompt of ``PROMPT`` words."""
    return Prompt(payload=" ".join(words.draw(PROMPT)), tokens=PROMPT, exact=False)


class _Attempt:
    """One way of prompting, with fewer fields each time that the server refuses some."""

    def __init__(self, client: Client, form: Form, draw: Callable[[], Prompt], ids: TokenIds) -> None:
        self._client = client
        self._form = form
        self._draw = draw
        self._ids = ids
        self._refused: dict[str, str] = {}

    def run(self) -> Settled | EngineError:
        for _ in range(10):
            prompt = self._draw()
            answer = self._client.stream(self._form.path, self._form.body(prompt.payload, TOKENS), TOKENS)
            if isinstance(answer, Answer):
                return Settled(self._form, prompt, answer, self._refused)
            error = self._client.refusal(answer, self._form.path)
            if answer.status in _FINAL or 300 <= answer.status < 400:
                raise error
            if answer.status in (404, 405) or not self._adapt(answer):
                return error
        return error

    def _adapt(self, page: Page) -> bool:
        """Change the form after a refusal; False when nothing is left to change."""
        said = page.body.decode("utf-8", "replace")
        form = self._form
        if "max_completion_tokens" in said and form.limit == "max_tokens":
            self._form = msgspec.structs.replace(form, limit="max_completion_tokens")
            return True
        if "continuous_usage_stats" in said and "continuous_usage_stats" in form.fields.get("stream_options", ()):
            self._drop({"stream_options": {"include_usage": True}}, "continuous_usage_stats")
            return True
        named = [field for field in form.fields if field in said]
        if form.prompting == "token_ids" and not named and re.search(r"vocab|token.?id|out of range", said, re.I):
            return self._ids.narrow()
        if not form.fields:
            return False
        # A refusal that names no field may still mean one: ask again with none of them.
        for field in named or list(form.fields):
            self._drop({}, field)
        return True

    def _drop(self, instead: dict[str, Any], field: str) -> None:
        self._refused[field] = f"refused by {self._form.path}"
        kept = {key: value for key, value in self._form.fields.items() if key != field}
        self._form = msgspec.structs.replace(self._form, fields=kept | instead)
