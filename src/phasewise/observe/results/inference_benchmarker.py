"""Hugging Face inference-benchmarker (formerly the TGI benchmark) JSON: a result per load.

TTFT and the mean gap between the tokens of a stream, in whole or decimal milliseconds; the warm-up comes first and is
left out (src/results.rs, src/writers.rs).
"""

from __future__ import annotations

from phasewise.observe.results import serving
from phasewise.observe.results.content import Content, Fields
from phasewise.observe.results.figures import MS, OVER_BOTH, figure, refused
from phasewise.observe.results.serving import Served
from phasewise.record.quantity import reported
from phasewise.record.results import Reported

FORM = "Hugging Face inference-benchmarker JSON"


def sniff(content: Content) -> bool:
    """Whether it holds results with an executor."""
    entries = _entries(content)
    return bool(entries) and isinstance(entries[0], dict) and "executor_type" in entries[0]


def _entries(content: Content) -> list[object]:
    if content.has("results") and isinstance(content.objects[0]["results"], list):
        return list(content.objects[0]["results"])
    return list(content.objects)


def read(content: Content) -> Reported:
    """A row per load."""
    config = Fields(content, content.objects[0]).inner("config")
    entries = [Fields(content, one, f"result {i} ") for i, one in enumerate(_entries(content), 1)]
    runs = [_run(one, config) for one in entries if one.text("id") != "warmup"] or [
        _run(one, config) for one in entries
    ]
    return Reported(
        tool="inference-benchmarker",
        form="JSON",
        model=config.text("tokenizer", "model_name"),
        rows=tuple(serving.row(run) for run in runs),
        checks=serving.checks(runs),
    )


def _run(fields: Fields, config: Fields) -> Served:
    requests = fields.number("successful_requests")
    executor = fields.inner("config")
    kind = fields.text("executor_type")
    most = executor.number("max_vus") if kind.lower().startswith("constantvus") else None
    ttft, gap = _ms(fields, "time_to_first_token_ms"), _ms(fields, "inter_token_latency_ms")
    output, prompts = fields.number("total_tokens"), fields.number("total_tokens_sent")
    prompt = config.inner("prompt_options").number("num_tokens")
    found = figure("time_to_first_token_ms", ttft, "s", "ttft", "send to the first token", "TTFT, queue included")
    how = "our TPOT where a chunk is a token"
    found += figure("inter_token_latency_ms", gap, "s", "tpot", "mean gap of a stream's tokens", how, "within bounds")
    found += refused(
        "token_throughput_secs", fields.number("token_throughput_secs"), "token/s", "tokens / duration", OVER_BOTH
    )
    return Served(
        label=fields.text("id") or kind or "the run",
        prompt=prompts / requests if prompts and requests else prompt,
        answer=output / requests if output and requests else None,
        requests=requests,
        duration=fields.number("duration_ms", scale=MS),
        most=most,
        ttft=reported(ttft, "s", "time to first token") if ttft else None,
        tpot=reported(gap, "s", "mean gap between tokens") if gap else None,
        total=_ms(fields, "e2e_latency_ms"),
        figures=found,
    )


def _ms(fields: Fields, name: str) -> float | None:
    """A time's median, else its mean; older files have ``..._avg`` beside it."""
    inner = fields.inner(name)
    return inner.number("p50", "avg", "mean", scale=MS) or fields.number(f"{name}_avg", scale=MS)
