"""SGLang `bench_serving`: JSON lines, one object a run (python/sglang/benchmark/metrics.py).

TPOT is (latency − TTFT) / (n − 1), where latency ends with the stream's [DONE]: it may be longer than ours by the wait
for that, spread over the tokens. ITL are raw gaps between chunks.
"""

from __future__ import annotations

from phasewise.observe.results import serving
from phasewise.observe.results.content import Content, Fields, each
from phasewise.observe.results.figures import MIXED, MS, OVER_BOTH, between, figure, refused
from phasewise.observe.results.serving import Served
from phasewise.observe.results.vllm import label
from phasewise.record.quantity import reported
from phasewise.record.results import Figure, Reported

FORM = "SGLang bench_serving JSON lines"

_TTFT = "send to the first content, reasoning included"
_TPOT = "(end of the stream - first content) / (tokens - 1)"
_ITL = "gap between chunks; the native API spreads it over the chunk's tokens"
_OWN = ("total_throughput", "total_output_retokenized", "total_output_tokens_retokenized", "mean_e2e_latency_ms")
_NAMES = {"total_input": "total_input_tokens", "total_output": "total_output_tokens"}


def sniff(content: Content) -> bool:
    """Whether it has what only SGLang writes."""
    rates = content.has("request_throughput") or content.has("output_throughput")
    return rates and content.has("completed") and any(content.has(name) for name in _OWN)


def read(content: Content) -> Reported:
    """A row per line."""
    runs = each(content, run)
    first = Fields(content, content.objects[0])
    server = first.inner("server_info")
    return Reported(
        tool="SGLang bench_serving",
        form="JSON lines" if len(runs) == 1 else f"JSON lines, {len(runs)} runs",
        model=content.sole(Fields(content, one).text("model", "model_id") for one in content.objects)
        or server.text("model_path"),
        devices=round(server.number("tp_size") or 0) or None,
        rows=tuple(serving.row(one) for one in runs),
        checks=serving.checks(runs),
    )


def run(fields: Fields) -> Served:
    """One run."""
    completed = fields.number("completed")
    prompts, answers = (fields.number(*names) for names in _NAMES.items())
    most = fields.number("max_concurrency")
    ttft, tpot = (fields.number(f"median_{name}_ms", f"mean_{name}_ms") for name in ("ttft", "tpot"))
    which = "median" if fields.number("median_ttft_ms") else "mean"
    answer = answers / completed if answers and completed else None
    ended = f"{which} TPOT, up to the end of the stream"
    return Served(
        label=label(fields, most),
        prompt=prompts / completed if prompts and completed else None,
        answer=answer,
        requests=completed,
        duration=fields.number("duration"),
        most=most,
        ttft=reported(ttft * MS, "s", f"{which} TTFT") if ttft else None,
        tpot=between(tpot * MS, None, None, "s", ended)
        if tpot
        else serving.rest(fields, "mean_e2e_latency_ms", answer),
        total=fields.number("mean_e2e_latency_ms", scale=MS),
        gap=fields.number("median_itl_ms", scale=MS),
        per_step=fields.number("accept_length"),
        figures=_figures(fields, alone=most == 1 or completed == 1),
    )


def _figures(fields: Fields, alone: bool) -> tuple[Figure, ...]:
    prefill = "TTFT of a request alone: its prefill and the client's share" if alone else "TTFT, queue included"
    bound = "at most this: ours ends with the last token, not with the stream"
    found: tuple[Figure, ...] = ()
    for stat in ("median", "mean", "p99"):
        value = {name: fields.number(f"{stat}_{name}_ms", scale=MS) for name in ("ttft", "tpot", "itl", "e2e_latency")}
        found += figure(f"{stat}_ttft_ms", value["ttft"], "s", "ttft", _TTFT, prefill)
        found += figure(f"{stat}_tpot_ms", value["tpot"], "s", "tpot", _TPOT, bound, "within bounds")
        found += figure(f"{stat}_itl_ms", value["itl"], "s", "icl", _ITL, "a chunk gap (ICL), no token time", "none")
        end = figure(
            f"{stat}_e2e_latency_ms", value["e2e_latency"], "s", "request time", "send to the end", "as it stands"
        )
        found += end
    rate = fields.number("request_throughput")
    found += figure("request_throughput", rate, "request/s", "request rate", "completed / duration", "as it stands")
    for name, what, why in (
        (
            "input_throughput",
            "prompt tokens / duration",
            OVER_BOTH.replace("answer", "prompt").replace("decode", "prefill"),
        ),
        ("output_throughput", "answer tokens / duration", OVER_BOTH),
        ("total_throughput", "prompt and answer tokens / duration", MIXED),
    ):
        found += refused(name, fields.number(name), "token/s", what, why)
    return found
