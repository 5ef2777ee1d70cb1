"""What a server says of its own times at the end of an answer, in the words of vLLM and of llama.cpp."""

from __future__ import annotations

from typing import Any

from phasewise.engines.simulated.plan import Plan
from phasewise.engines.simulated.scheduler import Request


def told(plan: Plan, request: Request, arrived: float, tokens: int) -> dict[str, Any]:
    """Fields of the last event of an answer of ``tokens`` tokens, as far as it has come.

    vLLM (--enable-per-request-metrics): ``time_to_first_token_ms`` runs from the start of prefill, not from arrival.
    """
    if plan.timings == "no" or request.started is None:
        return {}
    prefill = request.first_due - request.started
    if plan.timed_tokens is not None:
        prefill *= min(1.0, plan.timed_tokens / request.prompt_tokens)
    decode = request.due - request.first_due
    if plan.timings == "vllm":
        metrics = {
            "queue_time_ms": 1e3 * (request.started - arrived),
            "time_to_first_token_ms": 1e3 * prefill,
            "generation_time_ms": 1e3 * decode,
            "mean_itl_ms": 1e3 * decode / max(1, tokens - 1),
        }
        return {"metrics": metrics}
    timings = {
        "cache_n": request.cached,
        "prompt_n": request.prompt_tokens - request.cached,
        "prompt_ms": 1e3 * prefill,
        "predicted_n": tokens,
        "predicted_ms": 1e3 * decode,
    }
    return {"timings": timings}
