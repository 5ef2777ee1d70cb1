"""Prometheus pages of inference engines: the few counters that tell whether we were alone.

A parser of our own: it sums the samples of eight known families and reads nothing else, where prometheus_client would
build an object for each of the hundreds of samples.
"""

from __future__ import annotations

import math

from phasewise.engines.base import Activity

FAMILIES: dict[str, tuple[str, ...]] = {
    "running": (
        "vllm:num_requests_running",
        "sglang:num_running_reqs",
        "llamacpp:requests_processing",
        "tgi_batch_current_size",
        "trtllm_num_requests_running",
    ),
    "waiting": (
        "vllm:num_requests_waiting",
        "sglang:num_queue_reqs",
        "llamacpp:requests_deferred",
        "tgi_queue_size",
        "trtllm_num_requests_waiting",
    ),
    "prompt_tokens": (
        "vllm:prompt_tokens_total",
        "sglang:prompt_tokens_total",
        "llamacpp:prompt_tokens_total",
        "tgi_request_input_length_sum",
        "trtllm_prompt_tokens_total",
    ),
    "output_tokens": (
        "vllm:generation_tokens_total",
        "sglang:generation_tokens_total",
        "llamacpp:tokens_predicted_total",
        "tgi_request_generated_tokens_sum",
        "trtllm_generation_tokens_total",
    ),
}
"""Names of the metrics behind each field of ``Activity``: vLLM, SGLang, llama.cpp, TGI, TensorRT-LLM."""

PATHS = {"TensorRT-LLM": "/prometheus/metrics"}
"""Where the page is, by engine, when it is not at ``/metrics``."""

_FIELD = {name: field for field, names in FAMILIES.items() for name in names}


def activity(page: str) -> Activity | None:
    """Read a metrics page; each field is the sum over labels (ranks, models), None without any known family."""
    sums: dict[str, float] = {}
    for line in page.splitlines():
        name, value = _sample(line)
        if (field := _FIELD.get(name)) and value is not None and math.isfinite(value):
            sums[field] = sums.get(field, 0.0) + value
    return Activity(**sums) if sums else None


def _sample(line: str) -> tuple[str, float | None]:
    """Metric name and value of ``name{labels} value [timestamp]``; no name for other lines."""
    labelled = line.find("{")
    name, rest = (line[:labelled], line[line.rfind("}") + 1 :]) if labelled > 0 else _cut(line)
    values = rest.split()
    try:
        return name, float(values[0]) if values else None
    except ValueError:
        return name, None


def _cut(line: str) -> tuple[str, str]:
    name, _, rest = line.partition(" ")
    return name, rest
