"""A language model server in miniature: its tokens are words, its quirks are flags. No code of phasewise."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from engines_loopback import END, SSE_HEAD, Request, Step, event, page, stream

NOT_FOUND = page({"detail": "Not Found"}, "404 Not Found")


@dataclass
class Fake:
    """Answers the OpenAI protocol as the engine that its flags describe; a script for Loopback.

    Attributes:
        base: path before ``/models``, ``/completions``, ...
        root: path before the other pages.
        unknown: request fields that it refuses as unexpected.
        limit: name of the field that bounds the answer; the other one is refused.
        template: tokens that chat puts around a message.
        vocabulary_error: ``status`` or, as vLLM does it, ``stream``.
        begin: tokens put before every prompt of the completions endpoint.
        honours: fields that keep an answer to a question going.
        usage: ``end``, ``running`` or ``never``.
        pages: more pages, by path.
        pause: seconds between chunks.
    """

    models: list[dict[str, Any]] = field(default_factory=lambda: [{"id": "m"}])
    base: str = "/v1"
    root: str = ""
    endpoints: tuple[str, ...] = ("completions", "chat/completions")
    ids: bool = True
    vocabulary: int | None = None
    vocabulary_error: str = "status"
    unknown: tuple[str, ...] = ()
    limit: str = "max_tokens"
    template: int = 0
    begin: int = 0
    honours: tuple[str, ...] = ("ignore_eos",)
    usage: str = "end"
    cached: int | None = None
    streams: bool = True
    done: bool = True
    tokenize: str | None = None
    pages: dict[str, bytes] = field(default_factory=dict)
    pause: float = 0.0
    server: str = "uvicorn"

    def __call__(self, request: Request) -> Iterable[Step]:
        path = request.path.partition("?")[0]
        if path == f"{self.base}/models":
            return [page({"object": "list", "data": self.models}, extra=f"Server: {self.server}\r\n")]
        if path in self.pages:
            return [self.pages[path]]
        if self.tokenize and path == f"{self.root}/tokenize":
            return [self._tokenize(request.json)]
        for endpoint in self.endpoints:
            if path == f"{self.base}/{endpoint}":
                return self._generate(request.json, chat=endpoint.startswith("chat"))
        return [NOT_FOUND]

    def _tokenize(self, body: dict[str, Any]) -> bytes:
        if self.tokenize not in body:
            return page({"tokens": []})
        tokens = list(range(self.begin + len(body[self.tokenize].split())))
        return page({"tokens": tokens} if self.tokenize == "content" else {"count": len(tokens), "tokens": tokens})

    def _generate(self, body: dict[str, Any], *, chat: bool) -> Iterable[Step]:
        for name in (*self.unknown, *({"max_tokens", "max_completion_tokens"} - {self.limit})):
            if name in body or name in body.get("stream_options", {}):
                return [page({"error": {"message": f"Unexpected field {name!r}, use {self.limit}"}}, "400 Bad Request")]
        if body["model"] not in [model["id"] for model in self.models]:
            message = f"The model `{body['model']}` does not exist."
            return [page({"error": {"message": message, "code": 404}}, "404 Not Found")]
        prompt = body["messages"][0]["content"] if chat else body["prompt"]
        if isinstance(prompt, list):
            if not self.ids:
                return [page({"detail": "prompt must be a string"}, "422 Unprocessable Entity")]
            if self.vocabulary is not None and max(prompt) >= self.vocabulary:
                error = {"error": {"message": f"Token id {max(prompt)} is out of vocabulary"}}
                return stream([error]) if self.vocabulary_error == "stream" else [page(error, "400 Bad Request")]
            length, asks = len(prompt), False
        else:
            length, asks = len(prompt.split()), "?" in prompt or "one word" in prompt
        length += self.template if chat else self.begin
        early = asks and not any(body.get(name) for name in self.honours)
        return self._answer(body, length, 1 if early else body[self.limit], "stop" if early else "length", chat)

    def _answer(self, body: dict[str, Any], prompt: int, tokens: int, reason: str, chat: bool) -> Iterable[Step]:
        usage: dict[str, Any] = {"prompt_tokens": prompt, "completion_tokens": tokens}
        if self.cached is not None:
            usage["prompt_tokens_details"] = {"cached_tokens": self.cached}
        told = self.usage != "never"
        if not self.streams:
            choice = {"message": {"role": "assistant", "content": "w " * tokens}} if chat else {"text": "w " * tokens}
            yield page({"choices": [choice | {"finish_reason": reason}]} | ({"usage": usage} if told else {}))
            return
        yield SSE_HEAD
        if chat:
            yield event({"choices": [{"delta": {"role": "assistant", "content": ""}}]})
        running = self.usage == "running" and body.get("stream_options", {}).get("continuous_usage_stats")
        for index in range(tokens):
            choice = {"delta": {"content": f" w{index}"}} if chat else {"text": f" w{index}"}
            if index == tokens - 1:
                choice["finish_reason"] = reason
            piece: dict[str, Any] = {"choices": [choice]}
            yield event(piece | ({"usage": usage | {"completion_tokens": index + 1}} if running else {}))
            yield self.pause
        if told and body.get("stream_options", {}).get("include_usage"):
            yield event({"choices": [], "usage": usage})
        if self.done:
            yield event("[DONE]")
        yield END


LLAMA_CPP = {
    "models": [
        {
            "id": "tiny.gguf",
            "owned_by": "llamacpp",
            "meta": {
                "n_vocab": 49152,
                "n_ctx": 8192,
                "n_ctx_train": 8192,
                "n_params": 134515008,
                "size": 96576768,
                "ftype": "Q4_1",
            },
        }
    ],
    "server": "llama.cpp",
    "tokenize": "content",
    "cached": 0,
    "pages": {
        "/props": page(
            {
                "default_generation_settings": {"params": {"n_predict": -1}, "n_ctx": 4096},
                "total_slots": 2,
                "model_path": "/home/somebody/models/tiny.gguf",
                "model_ftype": "Q4_1",
                "build_info": "b0-unknown",
            }
        ),
        "/metrics": page(
            "# TYPE llamacpp:prompt_tokens_total counter\nllamacpp:prompt_tokens_total 88\n"
            "llamacpp:tokens_predicted_total 48\nllamacpp:requests_processing 1\nllamacpp:requests_deferred 2\n",
            kind="text/plain",
        ),
    },
}
"""Flags of a llama.cpp server, its pages in the shape of those recorded from one."""

VLLM = {
    "models": [{"id": "m", "owned_by": "vllm", "root": "org/model", "max_model_len": 4096}],
    "usage": "running",
    "tokenize": "prompt",
    "pages": {
        "/version": page({"version": "0.32.0"}),
        "/metrics": page(
            'vllm:num_requests_running{engine="0",model_name="m"} 0.0\n'
            'vllm:num_requests_waiting{engine="0",model_name="m"} 3.0\n'
            'vllm:prompt_tokens_total{engine="0",model_name="m"} 100.0\n'
            'vllm:prompt_tokens_total{engine="1",model_name="m"} 24.0\n'
            'vllm:generation_tokens_total{engine="0",model_name="m"} 4e1\n',
            kind="text/plain; version=1.0.0",
        ),
    },
}
"""Flags of a vLLM server."""

TRANSFORMERS = {
    "models": [{"id": "models/m", "owned_by": "local"}],
    "ids": False,
    "unknown": ("ignore_eos", "min_tokens", "continuous_usage_stats"),
    "honours": (),
    "done": False,
}
"""Flags of `transformers serve`, which refuses what it does not know."""
