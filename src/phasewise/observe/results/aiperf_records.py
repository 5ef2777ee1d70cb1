"""AIPerf `profile_export.jsonl`: one line a request, with when it began and ended.

Only requests that no other overlapped tell a prefill time; all of them together tell decode at its mean batch.
"""

from __future__ import annotations

from statistics import fmean, median
from typing import NamedTuple

from phasewise.observe.results import serving
from phasewise.observe.results.aiperf import UNITS
from phasewise.observe.results.content import Content, Fields, each
from phasewise.observe.results.figures import NS, figure
from phasewise.observe.results.serving import Served
from phasewise.record.quantity import reported
from phasewise.record.results import Reported

FORM = "AIPerf JSON lines of requests"


class _Request(NamedTuple):
    start: float
    end: float
    prompt: float
    answer: float
    ttft: float
    itl: float | None


def sniff(content: Content) -> bool:
    """Whether a line has a request's metadata and metrics."""
    return content.has("metadata", "metrics") and isinstance(content.objects[0]["metadata"], dict)


def read(content: Content) -> Reported:
    """A row of all requests, and one of those that ran alone when others did not."""
    found = [one for one in each(content, _request) if one]
    if not found:
        content.wrong("has no request with a first token: measure with streaming")
    found.sort(key=lambda one: one.start)
    apart = _alone(found)
    runs = [_run("all requests", found, 1.0 if len(apart) == len(found) else None)]
    if apart and len(apart) < len(found):
        runs.append(_run(f"the {len(apart):,} of {len(found):,} requests that ran alone", apart, 1.0))
    return Reported(
        tool="AIPerf",
        form="JSON lines of requests",
        rows=tuple(serving.row(run) for run in runs),
        checks=serving.checks(runs),
    )


def _request(fields: Fields) -> _Request | None:
    about, metrics = fields.inner("metadata"), fields.inner("metrics")
    if about.tree.get("was_cancelled") or fields.tree.get("error") or about.text("benchmark_phase") == "warmup":
        return None
    start, end = about.number("request_start_ns", scale=NS), about.number("request_end_ns", scale=NS)
    ttft, itl = _seconds(metrics, "time_to_first_token"), _seconds(metrics, "inter_token_latency")
    prompt, answer = (
        metrics.inner(name).number("value") for name in ("input_sequence_length", "output_sequence_length")
    )
    if start is None or end is None or ttft is None or prompt is None or answer is None:
        return None
    return _Request(start, end, prompt, answer, ttft, itl)


def _seconds(metrics: Fields, name: str) -> float | None:
    metric = metrics.inner(name)
    value, unit = metric.number("value"), str(metric.tree.get("unit", "ms"))
    if value is not None and unit not in UNITS:
        metric.wrong("unit", unit, "which is no unit of time known here (s, ms, us, ns)")
    return None if value is None else value * UNITS[unit]


def _alone(found: list[_Request]) -> list[_Request]:
    """Those that no other overlapped; ``found`` is sorted by start."""
    kept, latest = [], float("-inf")
    for i, one in enumerate(found):
        following = found[i + 1].start if i + 1 < len(found) else float("inf")
        if latest <= one.start and one.end <= following:
            kept.append(one)
        latest = max(latest, one.end)
    return kept


def _run(label: str, found: list[_Request], most: float | None) -> Served:
    ttft = median(one.ttft for one in found)
    itls = [one.itl for one in found if one.itl is not None]
    itl = median(itls) if itls else None
    many = f"median of {len(found):,} requests"
    figures = figure(
        "time_to_first_token", ttft, "s", "ttft", "send to the first response with content", f"{many}, as it stands"
    ) + figure(
        "inter_token_latency", itl, "s", "tpot", "(last response - first) / (tokens - 1)",
        f"{many}: our TPOT, to the last response", "within bounds",
    )  # fmt: skip
    return Served(
        label=label,
        prompt=fmean(one.prompt for one in found),
        answer=fmean(one.answer for one in found),
        requests=float(len(found)),
        duration=max(one.end for one in found) - min(one.start for one in found),
        most=most,
        ttft=reported(ttft, "s", f"median TTFT of {len(found):,} requests"),
        tpot=reported(itl, "s", f"median ITL of {len(itls):,} requests, to the last response") if itl else None,
        total=fmean(one.end - one.start for one in found),
        figures=figures,
    )
