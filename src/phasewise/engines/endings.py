"""Whether answers can be kept from ending early, by the ``ignore_eos`` or ``min_tokens`` of vLLM, SGLang, llama.cpp."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from phasewise.engines.base import Answer
from phasewise.engines.client import Client
from phasewise.engines.dialect import OPENAI, Form
from phasewise.engines.prompts import Words
from phasewise.errors import BrokenStream

TOKENS = 16
"""Far more than the one word that the question asks for."""


class Ending(NamedTuple):
    """The form to use, whether its answers run to their full length (None: not put to the test), and what was seen."""

    form: Form
    honoured: bool | None
    seen: str


def settle(client: Client, form: Form, api: str, words: Words) -> Ending:
    """Ask a question whose answer is one word, with the means that the server took, until one makes it go on.

    The question goes to the chat endpoint, where a model does stop by itself; other prompts seldom make it.
    """
    if form.wire is not OPENAI:
        return Ending(form, False, f"{form.path} has no such setting")
    chat = msgspec.structs.replace(form, prompting="chat", path=f"{api}/chat/completions")
    seen = "ignore_eos refused"
    if "ignore_eos" in form.fields:
        honoured, seen = _ended(client, chat, words)
        seen = f"ignore_eos accepted, {seen}"
        if honoured is not False:
            return Ending(form, honoured, seen)
    honoured, then = _ended(client, msgspec.structs.replace(chat, floor="min_tokens"), words)
    return Ending(
        msgspec.structs.replace(form, floor="min_tokens") if honoured else form, honoured, f"{seen}; min_tokens: {then}"
    )


def _ended(client: Client, chat: Form, words: Words) -> tuple[bool | None, str]:
    question = f"{' '.join(words.draw(5))}. Is that a sentence? Answer with one word, yes or no."
    try:
        answer = client.stream(chat.path, chat.body(question, TOKENS), TOKENS)
    except BrokenStream:
        return False, "the answer was empty"
    if not isinstance(answer, Answer):
        if chat.floor is not None and chat.floor.encode() in answer.body:
            return False, "refused"
        return None, f"not put to the test: {chat.path} answered HTTP {answer.status}"
    tokens = answer.completion_tokens
    if answer.finish_reason == "length" and tokens in (TOKENS, None):
        return True, f"a one-word answer went on to {TOKENS} of {TOKENS} tokens"
    return False, f"a one-word answer ended by {answer.finish_reason or 'itself'} after {tokens or 'some'} tokens"
