"""GET /metrics: Prometheus text in vLLM's names."""

from __future__ import annotations

from phasewise.engines.simulated.plan import Plan
from phasewise.engines.simulated.scheduler import Scheduler


def exposition(plan: Plan, scheduler: Scheduler) -> bytes:
    """The counters now."""
    counters = scheduler.counters
    rows = (
        ("num_requests_running", "gauge", "Number of requests in model execution batches.", len(scheduler.running)),
        ("num_requests_waiting", "gauge", "Number of requests waiting to be processed.", len(scheduler.waiting)),
        ("prompt_tokens_total", "counter", "Number of prefill tokens processed.", counters.prompt_tokens),
        ("generation_tokens_total", "counter", "Number of generation tokens processed.", counters.generation_tokens),
        ("prefix_cache_queries_total", "counter", "Prefix cache queries, in tokens.", counters.cache_queries),
        ("prefix_cache_hits_total", "counter", "Prefix cache hits, in tokens.", counters.cache_hits),
    )
    model = plan.model.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    lines = []
    for name, kind, meaning, value in rows:
        lines += [f"# HELP vllm:{name} {meaning}", f"# TYPE vllm:{name} {kind}"]
        lines.append(f'vllm:{name}{{engine="0",model_name="{model}"}} {float(value)}')
    return ("\n".join(lines) + "\n").encode()
