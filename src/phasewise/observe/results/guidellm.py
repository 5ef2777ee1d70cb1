"""GuideLLM `benchmarks.json`: a list of benchmarks, each with a strategy and distributions over its requests.

Its inter-token latency is (last token − first) / (n − 1), our TPOT; its time per output token is (last token − send) /
n and holds TTFT (guidellm/schemas/request_stats.py). Means over tokens, so that long answers count more.
"""

from __future__ import annotations

from phasewise.observe.results import serving
from phasewise.observe.results.content import Content, Fields
from phasewise.observe.results.figures import MIXED, MS, OVER_BOTH, figure, refused
from phasewise.observe.results.serving import Served
from phasewise.record.quantity import Quantity, reported
from phasewise.record.results import Figure, Reported

FORM = "GuideLLM JSON"

_TPOT = "(last token - send) / tokens: TTFT is in it"
_TPOT_03 = "(last token - first) / tokens"
_UNMIXED_03 = "ours by TPOT x tokens / (tokens - 1), from the means"
"""Until 0.3, which wrote run_stats."""

_UNMIXED = "ours by (TPOT x tokens - TTFT) / (tokens - 1), from the means"


def sniff(content: Content) -> bool:
    """Whether it is a list of benchmarks with metrics."""
    if not content.has("benchmarks") or not isinstance(content.objects[0]["benchmarks"], list):
        return False
    first = content.objects[0]["benchmarks"][:1]
    return bool(first) and isinstance(first[0], dict) and isinstance(first[0].get("metrics"), dict)


def read(content: Content) -> Reported:
    """A row per benchmark."""
    top = Fields(content, content.objects[0])
    runs = [_run(Fields(content, tree, f"benchmark {i} ")) for i, tree in enumerate(top.items("benchmarks"), 1)]
    first = Fields(content, top.items("benchmarks")[0])
    model = top.inner("args").text("model") or top.inner("config").inner("spec").inner("backend").text("model")
    return Reported(
        tool="GuideLLM",
        form=f"JSON, {len(runs)} benchmark{'s' * (len(runs) != 1)}",
        model=model
        or first.inner("config").inner("backend").text("model", "model_id")
        or first.inner("worker").text("backend_model"),
        rows=tuple(serving.row(run) for run in runs),
        checks=serving.checks(runs),
    )


def _run(fields: Fields) -> Served:
    metrics = fields.inner("metrics")
    strategy = (
        fields.inner("config").inner("strategy") if "config" in fields.tree else fields.inner("args").inner("strategy")
    )
    kind = strategy.text("type_")
    most = 1.0 if kind == "synchronous" else strategy.number("streams", "max_concurrency")
    ttft, itl = _central(metrics, "time_to_first_token_ms"), _central(metrics, "inter_token_latency_ms")
    prompt, answer = _mean(metrics, "prompt_token_count"), _mean(metrics, "output_token_count")
    rate, old = _mean(metrics, "requests_per_second"), "run_stats" in fields.tree
    return Served(
        label=_label(kind, strategy, most),
        prompt=prompt,
        answer=answer,
        requests=(metrics if "request_totals" in metrics.tree else fields).inner("request_totals").number("successful"),
        duration=fields.number("duration"),
        rate=rate,
        most=most if most or kind != "throughput" else None,
        ttft=ttft,
        tpot=itl or _unmixed(metrics, answer, old=old),
        total=_mean(metrics, "request_latency"),
        figures=_figures(metrics, most == 1, old=old),
    )


def _label(kind: str, strategy: Fields, most: float | None) -> str:
    rate = strategy.number("rate")
    return " ".join(
        [
            kind or "run",
            *([f"{most:,.0f}"] if most and kind != "synchronous" else []),
            *([f"{rate:g}/s"] if rate else []),
        ]
    )


def _mean(metrics: Fields, name: str) -> float | None:
    """Over successful requests; older files have the statistics without a status."""
    metric = metrics.inner(name)
    return (metric.inner("successful") if "successful" in metric.tree else metric).number("mean")


def _central(metrics: Fields, name: str) -> Quantity | None:
    metric = metrics.inner(name)
    own = metric.inner("successful") if "successful" in metric.tree else metric
    for which in ("median", "mean"):
        value = own.number(which, scale=MS)
        if value is not None:
            return reported(value, "s", f"{which} {name.removesuffix('_ms')}")
    return None


def _unmixed(metrics: Fields, answer: float | None, *, old: bool) -> Quantity | None:
    """Our TPOT from theirs, which is over all tokens and holds TTFT, until 0.3 without it."""
    tpot, ttft = _mean(metrics, "time_per_output_token_ms"), _mean(metrics, "time_to_first_token_ms")
    if tpot is None or ttft is None or answer is None or answer <= 1:
        return None
    span = tpot * answer - (0.0 if old else ttft)
    return reported(span / (answer - 1) * MS, "s", _UNMIXED_03 if old else _UNMIXED) if span > 0 else None


def _figures(metrics: Fields, alone: bool, *, old: bool) -> tuple[Figure, ...]:
    prefill = "TTFT of a request alone: its prefill and the client's share" if alone else "TTFT, queue included"

    def ms(name: str) -> float | None:
        value = _mean(metrics, name)
        return None if value is None else value * MS

    found: tuple[Figure, ...] = figure(
        "time_to_first_token_ms.mean", ms("time_to_first_token_ms"), "s", "ttft", "send to the first chunk", prefill
    )
    found += figure(
        "inter_token_latency_ms.mean", ms("inter_token_latency_ms"), "s", "tpot", "(last token - first) / (tokens - 1)",
        "our TPOT as it stands",
    )  # fmt: skip
    found += figure(
        "time_per_output_token_ms.mean", ms("time_per_output_token_ms"), "s", "other", _TPOT_03 if old else _TPOT,
        _UNMIXED_03 if old else _UNMIXED, "within bounds",
    )  # fmt: skip
    total = _mean(metrics, "request_latency")
    found += figure("request_latency.mean", total, "s", "request time", "send to the end", "as it stands")
    rate = _mean(metrics, "requests_per_second")
    found += figure("requests_per_second.mean", rate, "request/s", "request rate", "completed a second", "as it stands")
    for name, what, why in (
        ("output_tokens_per_second", "answer tokens a second of the run", OVER_BOTH),
        (
            "prompt_tokens_per_second",
            "prompt tokens a second of the run",
            OVER_BOTH.replace("answer", "prompt").replace("decode", "prefill"),
        ),
        ("tokens_per_second", "all tokens a second of the run", MIXED),
    ):
        found += refused(f"{name}.mean", _mean(metrics, name), "token/s", what, why)
    return found
