"""Servers with an API of their own, in miniature, written from their source code. No code of phasewise.

Ollama fb307609 (api/types.go, server/routes.go, llm/llama_server.go), text-generation-inference db931fcf
(router/src/lib.rs, server.rs), LM Studio's documentation of its REST API v0, TensorRT-LLM's
tensorrt_llm/serve/openai_protocol.py and metrics/collector.py, SGLang's srt/entrypoints/openai/protocol.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from engines_fake import NOT_FOUND
from engines_loopback import END, Request, Step, chunk, page

NDJSON = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n"
TGI_SSE = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nX-Accel-Buffering: no\r\nx-compute-type: cpu\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)


def line(data: object) -> bytes:
    """A line of JSON in a chunk of its own, as Ollama writes it."""
    return chunk(json.dumps(data).encode() + b"\n")


@dataclass
class Ollama:
    """Ollama with one model; a script for Loopback.

    Attributes:
        pause: seconds between tokens.
        thoughts: tokens of thinking before the answer, by chat.
        cached: prompt tokens that were in the cache; 0 evaluated leaves the count out (Go's omitempty).
        processed_only: count only what was evaluated, as its runner did before it called llama.cpp's server.
        load: seconds of load_duration.
        repeats: the answer breaks off after so many tokens without a last line (its limit on repeated tokens).
        context: of the loaded model.
    """

    pause: float = 0.0
    thoughts: int = 0
    cached: int = 0
    processed_only: bool = False
    load: float = 0.02
    repeats: int | None = None
    context: int = 4096
    namespace: str = "library"

    def __call__(self, request: Request) -> Iterable[Step]:
        path = request.path
        if path == "/v1/models":
            card = {"id": "small:latest", "object": "model", "created": 1, "owned_by": self.namespace}
            return [page({"object": "list", "data": [card]})]
        if path == "/api/version":
            return [page({"version": "0.32.1"})]
        if path == "/api/ps":
            details = {"family": "llama", "parameter_size": "134.52M", "quantization_level": "Q4_K_M"}
            model = {"name": "small:latest", "model": "small:latest", "details": details}
            return [
                page({"models": [{"name": "other", "context_length": 9}, model | {"context_length": self.context}]})
            ]
        if path == "/api/show":
            info = {"general.parameter_count": 134515008, "llama.context_length": 8192}
            return [page({"details": {"quantization_level": "Q4_K_M"}, "model_info": info})]
        if path in ("/api/generate", "/api/chat"):
            return self._answer(request.json, chat=path == "/api/chat")
        return [page("404 page not found", "404 Not Found", "text/plain")]

    def _answer(self, body: dict[str, Any], *, chat: bool) -> Iterable[Step]:
        prompt = body["messages"][0]["content"] if chat else body["prompt"]
        tokens, wanted = len(prompt.split()) + (9 if chat else 0), body["options"]["num_predict"]
        if tokens > self.context and not body.get("truncate", True):
            yield page({"error": "the input length exceeds the context length"}, "400 Bad Request")
            return
        yield NDJSON
        for index in range(wanted):
            if self.repeats == index:
                yield END
                return
            thinking = chat and index < self.thoughts
            yield line(self._piece(f" w{index}", chat=chat, thinking=thinking) | {"done": False})
            yield self.pause
        evaluated = max(0, tokens - self.cached)
        count = evaluated if self.processed_only else tokens
        last = self._piece("", chat=chat) | {"done": True, "done_reason": "length", "eval_count": wanted}
        last |= {"total_duration": 10**9, "load_duration": int(self.load * 1e9)}
        last |= {"prompt_eval_duration": evaluated * 10**6, "eval_duration": int((wanted - 1) * self.pause * 1e9)}
        yield line(last | ({"prompt_eval_count": count} if count else {}))
        yield END

    def _piece(self, text: str, *, chat: bool, thinking: bool = False) -> dict[str, Any]:
        said = {"model": "small:latest", "created_at": "2026-11-29T20:00:00.1Z"}
        if not chat:
            return said | {"response": text}
        message: dict[str, Any] = {"role": "assistant", "content": "" if thinking else text}
        return said | {"message": message | ({"thinking": text} if thinking else {})}


@dataclass
class Tgi:
    """text-generation-inference with one model; ``eos`` ends every answer after so many tokens."""

    pause: float = 0.0
    eos: int | None = None

    def __call__(self, request: Request) -> Iterable[Step]:
        if request.path == "/v1/models":
            card = {"id": "org/model", "object": "model", "created": 0, "owned_by": "org/model"}
            return [page({"object": "list", "data": [card]})]
        if request.path == "/info":
            limits = {"max_concurrent_requests": 128, "max_input_tokens": 1023, "max_total_tokens": 1024}
            return [page({"model_id": "org/model", "version": "3.3.6", "router": "text-generation-router"} | limits)]
        if request.path == "/tokenize":
            words = request.json["inputs"].split()
            return [page([{"id": n, "text": word, "start": 0, "stop": 1} for n, word in enumerate(words)])]
        if request.path == "/generate_stream":
            return self._answer(request.json)
        return [NOT_FOUND]

    def _answer(self, body: dict[str, Any]) -> Iterable[Step]:
        wanted = body["parameters"]["max_new_tokens"]
        made = min(wanted, self.eos or wanted)
        yield TGI_SSE
        for index in range(made):
            token = {"id": index, "text": f" w{index}", "logprob": -0.1, "special": False}
            event: dict[str, Any] = {"index": index + 1, "token": token, "generated_text": None, "details": None}
            if index == made - 1:
                reason = "length" if made == wanted else "eos_token"
                event["details"] = {"finish_reason": reason, "generated_tokens": made, "seed": None}
                event["details"]["input_length"] = len(body["inputs"].split())
                event["generated_text"] = "w"
            yield chunk(f"data:{json.dumps(event)}\n\n".encode())
            yield self.pause
        yield END
