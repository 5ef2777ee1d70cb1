"""What servers say of the time a request took, by their own names and units, made one thing."""

from __future__ import annotations

from typing import NamedTuple

from phasewise.engines.base import Answer
from phasewise.engines.exchange import Exchange


class Own(NamedTuple):
    """A server's own times of one request, seconds; None where it does not say.

    Attributes:
        who: whose figures these are.
        prefill: from when the prompt was taken up to the first token.
        decode: from the first token to the last.
        steps: tokens after the first: what ``decode`` is spread over.
        queue: waiting before ``prefill``.
        load: loading the model before that.
    """

    who: str
    prefill: float | None = None
    decode: float | None = None
    steps: float | None = None
    queue: float | None = None
    load: float | None = None

    @property
    def step(self) -> float | None:
        """Time per token after the first; None without two tokens."""
        return self.decode / self.steps if self.decode is not None and self.steps and self.steps > 0 else None


def own(answer: Answer | Exchange) -> Own | None:
    """What the server said of ``answer``; None when it said nothing that we know.

    llama.cpp's ``predicted_ms`` and Ollama's ``eval_duration`` (the same figure, in ns) run from the first token to the
    last, so they are ``tokens - 1`` steps, whatever rate the server makes of them. vLLM sends its ``metrics`` with
    ``--enable-per-request-metrics``; its ``time_to_first_token_ms`` starts when the request was scheduled. LM Studio
    says in ``stats`` when the first token came; its ``generation_time`` is left alone: nothing says what it spans.
    """
    said = answer.reported
    steps = None if answer.completion_tokens is None else answer.completion_tokens - 1.0
    if "prompt_ms" in said:
        predicted = said.get("predicted_n")
        steps = steps if predicted is None else predicted - 1
        return Own("llama.cpp's timings", _of(said, "prompt_ms", 1e-3), _of(said, "predicted_ms", 1e-3), steps)
    if "eval_duration" in said or "prompt_eval_duration" in said:
        prefill, decode = _of(said, "prompt_eval_duration", 1e-9), _of(said, "eval_duration", 1e-9)
        return Own("Ollama's durations", prefill, decode, steps, load=_of(said, "load_duration", 1e-9))
    if "time_to_first_token_ms" in said:
        prefill, decode = _of(said, "time_to_first_token_ms", 1e-3), _of(said, "generation_time_ms", 1e-3)
        return Own("vLLM's metrics of the request", prefill, decode, steps, queue=_of(said, "queue_time_ms", 1e-3))
    if "time_to_first_token" in said:
        return Own("LM Studio's stats", _of(said, "time_to_first_token", 1.0))
    return None


def _of(said: dict[str, float], name: str, unit: float) -> float | None:
    value = said.get(name)
    return None if value is None or value < 0 else value * unit
