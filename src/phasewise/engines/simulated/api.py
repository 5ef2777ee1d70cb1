"""The bodies of the OpenAI protocol: what is asked, checked and counted in tokens."""

from __future__ import annotations

import zlib
from typing import TypeVar

import msgspec

from phasewise.engines.simulated.plan import Plan

VOCABULARY = 128_000
"""Token ids run from 0 to below this."""

WORDS = ("the", "model", "reads", "its", "weights", "once", "per", "step", "and", "writes", "one", "token")
"""Answers go round these words, a token each."""


class ApiError(Exception):
    """A request that is answered with an error; ``status`` is the HTTP status."""

    def __init__(self, status: int, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.param = param

    def body(self) -> bytes:
        """The error in OpenAI's form, as vLLM fills it."""
        kind = {401: "Unauthorized", 404: "NotFoundError", 429: "RateLimitError"}.get(
            self.status, "BadRequestError" if self.status < 500 else "InternalServerError"
        )
        error = {"message": str(self), "type": kind, "param": self.param, "code": self.status}
        return msgspec.json.encode({"error": error})


class StreamOptions(msgspec.Struct):
    """What a stream tells besides its text."""

    include_usage: bool = False
    continuous_usage_stats: bool = False


class _Body(msgspec.Struct, kw_only=True):
    model: str | None = None
    max_tokens: int | None = None
    min_tokens: int = 0
    n: int = 1
    stream: bool = False
    stream_options: StreamOptions | None = None
    ignore_eos: bool = False
    return_token_ids: bool = False
    top_p: float | None = None
    logprobs: bool | int | None = None
    response_format: dict[str, object] | None = None


class CompletionBody(_Body):
    """POST /v1/completions."""

    prompt: str | list[int | str | list[int]]


class Part(msgspec.Struct):
    """Part of a chat message."""

    type: str
    text: str = ""


class Message(msgspec.Struct):
    """Chat message."""

    role: str
    content: str | list[Part] | None = None


class ChatBody(_Body):
    """POST /v1/chat/completions."""

    messages: list[Message]
    max_completion_tokens: int | None = None


class TokenizeBody(msgspec.Struct):
    """POST /tokenize."""

    prompt: str | None = None
    messages: list[Message] | None = None


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """A checked request.

    Attributes:
        chat: True for /v1/chat/completions.
        prompt: its tokens, as ids or words; for chat without the template's.
        prompt_tokens: its length with the template.
        answer_tokens: length of the answer.
        finish_reason: ``length`` or ``stop``.
        step_s: what the options of the request add to each decode step, seconds.
    """

    chat: bool
    prompt: list[int] | list[str]
    prompt_tokens: int
    answer_tokens: int
    finish_reason: str
    stream: bool
    include_usage: bool
    running_usage: bool
    token_ids: bool
    step_s: float


_B = TypeVar("_B", CompletionBody, ChatBody, TokenizeBody)


def decode(body: bytes, kind: type[_B]) -> _B:
    """Read a JSON body.

    Raises:
        ApiError: 400 with the place of the mistake.
    """
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ApiError(400, f"Invalid request body: {error}") from None


def ask(plan: Plan, body: CompletionBody | ChatBody) -> Ask:
    """Check a generation request against ``plan``.

    Raises:
        ApiError: 404 for another model, 400 for anything else that cannot be served.
    """
    if body.model is not None and body.model != plan.model:
        raise ApiError(404, f"The model `{body.model}` does not exist.", "model")
    if body.n != 1:
        raise ApiError(400, f"n must be 1, got {body.n}.", "n")
    if isinstance(body, ChatBody):
        prompt: list[int] | list[str] = words_of(body.messages)
        limit = body.max_completion_tokens if body.max_completion_tokens is not None else body.max_tokens
        prompt_tokens = len(prompt) + plan.template_tokens
        default = plan.answer_tokens or 256
    else:
        prompt, limit, default = _prompt(plan, body.prompt), body.max_tokens, 16
        prompt_tokens = len(prompt)
    if plan.cut_tokens is not None and prompt_tokens > plan.cut_tokens:
        prompt, prompt_tokens = prompt[-plan.cut_tokens :], plan.cut_tokens
    if not prompt_tokens:
        raise ApiError(400, "The prompt is empty.", "prompt")
    if limit is not None and limit < 1:
        raise ApiError(400, f"max_tokens must be at least 1, got {limit}.", "max_tokens")
    answer, reason = _length(plan, body, prompt_tokens, limit, default)
    options = body.stream_options or StreamOptions()
    return Ask(
        chat=isinstance(body, ChatBody),
        prompt=prompt,
        prompt_tokens=prompt_tokens,
        answer_tokens=answer,
        finish_reason=reason,
        stream=body.stream,
        include_usage=options.include_usage and plan.usage,
        running_usage=options.continuous_usage_stats and plan.usage,
        token_ids=body.return_token_ids,
        step_s=_step_s(plan, body),
    )


def _step_s(plan: Plan, body: CompletionBody | ChatBody) -> float:
    sampled = body.top_p is not None and body.top_p < 1
    told = body.logprobs is not None and body.logprobs is not False
    guided = body.response_format is not None
    return plan.sampling_s * sampled + plan.logprobs_s * told + plan.guided_s * guided


def words_of(messages: list[Message]) -> list[str]:
    """The words of a chat, a token each.

    Raises:
        ApiError: 400 when there is no message.
    """
    if not messages:
        raise ApiError(400, "messages must not be empty.", "messages")
    texts = []
    for message in messages:
        content = message.content or ""
        texts += [content] if isinstance(content, str) else [part.text for part in content]
    return " ".join(texts).split()


def ids_of(words: list[str]) -> list[int]:
    """A token id for each word, the same in every process."""
    return [zlib.crc32(word.encode("utf-8", "surrogatepass")) % VOCABULARY for word in words]


def _prompt(plan: Plan, prompt: str | list[int | str | list[int]]) -> list[int] | list[str]:
    if isinstance(prompt, list) and len(prompt) == 1 and not isinstance(prompt[0], int):
        prompt = prompt[0]  # type: ignore[assignment]
    if isinstance(prompt, str):
        return prompt.split()
    if not plan.token_ids:
        raise ApiError(400, "prompt must be a string.", "prompt")
    if not all(isinstance(token, int) for token in prompt):
        raise ApiError(400, "prompt must be one string or one list of token ids.", "prompt")
    ids: list[int] = prompt  # type: ignore[assignment]
    if ids and not (min(ids) >= 0 and max(ids) < VOCABULARY):
        raise ApiError(400, f"Token ids must be from 0 to {VOCABULARY - 1}.", "prompt")
    return ids


def _length(
    plan: Plan, body: CompletionBody | ChatBody, prompt_tokens: int, limit: int | None, default: int
) -> tuple[int, str]:
    room = plan.max_context - prompt_tokens
    if room < (limit or 1):
        raise ApiError(
            400,
            f"This model's maximum context length is {plan.max_context} tokens. However, you requested "
            f"{prompt_tokens + (limit or 1)} tokens ({prompt_tokens} in the prompt, {limit or 1} in the answer).",
            "max_tokens",
        )
    answer = limit if limit is not None else min(default, room)
    heard = not (plan.chat_stops and isinstance(body, ChatBody))
    natural = plan.answer_tokens
    if natural is not None and heard:
        natural = None if body.ignore_eos else max(natural, body.min_tokens)
    if plan.early_end is not None:
        natural = plan.early_end
    return (answer, "length") if natural is None or natural >= answer else (natural, "stop")
