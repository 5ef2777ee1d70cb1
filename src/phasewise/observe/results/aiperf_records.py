"""AIPerf `profile_export.jsonl`: one line a request, with when it began and ended.

Only requests that no other overlapped tell a prefill time; all of them together tell decode at its mean batch.
"""

from __future__ import annotations

from phasewise.observe.results import detailed, serving
from phasewise.observe.results.aiperf import seconds, statistic
from phasewise.observe.results.content import Content, Fields, each
from phasewise.observe.results.detailed import Request
from phasewise.observe.results.figures import NS, figure
from phasewise.observe.results.serving import Served
from phasewise.record.quantity import reported
from phasewise.record.results import Reported

FORM = "AIPerf JSON lines of requests"


def sniff(content: Content) -> bool:
    """Whether a line has a request's metadata and metrics."""
    return content.has("metadata", "metrics") and isinstance(content.objects[0]["metadata"], dict)


def read(content: Content) -> Reported:
    """A row of all requests, and one of those that ran alone when others did not."""
    found = [one for one in each(content, _request) if one]
    if not found:
        content.wrong("has no request with a first token, its lengths and its times: measure with streaming")
    apart = detailed.alone(found)
    runs = [_run("all requests", found, 1.0 if len(apart) == len(found) else None)]
    if apart and len(apart) < len(found):
        runs.append(_run(f"the {len(apart):,} of {len(found):,} requests that ran alone", apart, 1.0))
    return Reported(
        tool="AIPerf",
        form="JSON lines of requests",
        rows=tuple(serving.row(run) for run in runs),
        checks=serving.checks(runs),
    )


def _request(fields: Fields) -> Request | None:
    about, metrics = fields.inner("metadata"), fields.inner("metrics")
    phase = about.text("benchmark_phase", "credit_phase")
    if about.tree.get("was_cancelled") or fields.tree.get("error") or phase == "warmup":
        return None
    # The first versions called TTFT ttft, and told the end by the latency alone.
    start, end = about.number("request_start_ns", "timestamp_ns", scale=NS), about.number("request_end_ns", scale=NS)
    latency = seconds(metrics, "request_latency", "value")
    if end is None and start is not None and latency is not None:
        end = start + latency
    ttft = seconds(metrics, "time_to_first_token", "value") or seconds(metrics, "ttft", "value")
    itl = seconds(metrics, "inter_token_latency", "value")
    prompt, answer = (statistic(metrics, f"{name}_sequence_length", "value") for name in ("input", "output"))
    if start is None or end is None or ttft is None or prompt is None or answer is None:
        return None
    return Request(start, start + ttft, end, prompt, answer, itl)


def _run(label: str, found: list[Request], most: float | None) -> Served:
    seen = detailed.means(found)
    many = f"median of {seen.requests:,} requests"
    first, gap = "send to the first response with content", "(last response - first) / (tokens - 1)"
    figures = figure("time_to_first_token", seen.ttft, "s", "ttft", first, f"{many}, as it stands")
    how = f"{many}: our TPOT, to the last response"
    figures += figure("inter_token_latency", seen.tpot, "s", "tpot", gap, how, "within bounds")
    return Served(
        label=label,
        prompt=seen.prompt,
        answer=seen.answer,
        requests=float(seen.requests),
        duration=seen.duration,
        most=most,
        ttft=reported(seen.ttft, "s", f"{many}: TTFT"),
        tpot=reported(seen.tpot, "s", f"{many}: ITL, to the last response") if seen.tpot else None,
        total=seen.total,
        decoding=seen.decoding,
        figures=figures,
    )
