"""TensorRT-LLM `trtllm-bench` report JSON (tensorrt_llm/bench/dataclasses/reporting.py).

TPOT is (last token − first) / (n − 1) by the engine's own token ids. TTFT and TPOT are only there with --streaming.
"""

from __future__ import annotations

from phasewise.observe.results import serving
from phasewise.observe.results.content import Content, Fields
from phasewise.observe.results.figures import MIXED, MS, OVER_BOTH, figure, refused
from phasewise.observe.results.serving import Served
from phasewise.record.quantity import reported
from phasewise.record.results import Figure, Reported

FORM = "trtllm-bench report JSON"


def sniff(content: Content) -> bool:
    """Whether it has the report's parts."""
    return content.has("engine", "performance", "request_info")


def read(content: Content) -> Reported:
    """One row."""
    top = Fields(content, content.objects[0])
    run = _run(top)
    gpu = top.inner("machine").text("name")
    return Reported(
        tool="trtllm-bench",
        form="report JSON",
        model=top.inner("engine").text("model", "model_path"),
        accelerators=(gpu,) if gpu else (),
        devices=round(top.inner("world_info").number("world_size") or 0) or None,
        rows=(serving.row(run),),
        checks=serving.checks([run]),
    )


def _run(top: Fields) -> Served:
    asked, speed, stream = (top.inner(name) for name in ("request_info", "performance", "streaming_metrics"))
    together = asked.number("avg_num_concurrent_requests")
    alone = together is not None and together <= 1.0 + 1e-6
    ttft = stream.inner("ttft_percentiles").number("p50") or stream.number("avg_ttft_ms")
    tpot = stream.inner("tpot_percentiles").number("p50") or stream.number("avg_tpot_ms")
    speculative = top.inner("decoding_stats").inner("acceptance_length_percentiles")
    return Served(
        label=f"{together:.3g} requests at once" if together else "the run",
        prompt=asked.number("avg_input_length"),
        answer=asked.number("avg_output_length"),
        requests=asked.number("num_requests"),
        duration=speed.number("total_latency_ms", scale=MS),
        rate=speed.number("request_throughput_req_s"),
        most=1.0 if alone else None,
        ttft=reported(ttft * MS, "s", "TTFT") if ttft else None,
        tpot=reported(tpot * MS, "s", "TPOT") if tpot else None,
        total=speed.number("avg_request_latency_ms", scale=MS),
        per_step=speculative.number("average"),
        figures=_figures(speed, stream, alone),
    )


def _figures(speed: Fields, stream: Fields, alone: bool) -> tuple[Figure, ...]:
    prefill = "TTFT of a request alone" if alone else "TTFT, queue included"
    found: tuple[Figure, ...] = figure(
        "avg_ttft_ms", stream.number("avg_ttft_ms", scale=MS), "s", "ttft", "submitted to the first token", prefill
    )
    found += figure(
        "avg_tpot_ms",
        stream.number("avg_tpot_ms", scale=MS),
        "s",
        "tpot",
        "(last token - first) / (tokens - 1)",
        "as it stands",
    )
    total = speed.number("avg_request_latency_ms", scale=MS)
    found += figure("avg_request_latency_ms", total, "s", "request time", "submitted to the last token", "as it stands")
    rate = speed.number("request_throughput_req_s")
    found += figure(
        "request_throughput_req_s", rate, "request/s", "request rate", "requests / total latency", "as it stands"
    )
    for name, what, why in (
        ("system_output_throughput_tok_s", "answer tokens, the first too, / total latency", OVER_BOTH),
        ("system_total_throughput_tok_s", "prompt and answer tokens / total latency", MIXED),
    ):
        found += refused(name, speed.number(name), "token/s", what, why)
    return found
