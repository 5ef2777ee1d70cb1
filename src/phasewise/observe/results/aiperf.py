"""AIPerf `profile_export_aiperf.json` and GenAI-Perf `profile_export_genai_perf.json`, and the same as CSV: metrics.

Inter-token latency is (latency − TTFT) / (tokens − 1), our TPOT up to the last response (AIPerf with --per-chunk-usage
subtracts the first chunk's tokens instead); raw gaps are called inter-chunk latency.
"""

from __future__ import annotations

import csv
import io
import re

from phasewise.observe.results import serving
from phasewise.observe.results.content import Content, Fields
from phasewise.observe.results.figures import MIXED, OVER_BOTH, between, figure, refused
from phasewise.observe.results.serving import Served
from phasewise.record.quantity import Quantity, reported
from phasewise.record.results import Figure, Reported

FORM = "AIPerf or GenAI-Perf JSON or CSV"

_FLAG = re.compile(r"--concurrency[= ](\d{1,9})\b")

UNITS = {"s": 1.0, "sec": 1.0, "seconds": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}

_NAMED = re.compile(r"^([A-Z][A-Za-z ]{2,60}?)(?: \(([^()]{1,40})\))?$")
"""A metric of the CSV: ``Time To First Token (ms)``."""

_TTFT = "send to the first response with content"
_ITL = "(last response - first) / (tokens - 1)"
_AS_TPOT = "our TPOT, to the last response instead of the last token: at most this"


def sniff(content: Content) -> bool:
    """Whether it holds a metric of theirs as an object with a unit."""
    if content.documents and (len(content.documents) != 1 or not content.objects):
        return False
    tree = _metrics(content)
    return any("avg" in Fields(content, tree.get(name)).tree for name in ("request_throughput", "request_latency"))


def _metrics(content: Content) -> dict[str, object]:
    if not content.documents:
        return _table(content.text)
    tree = dict(content.objects[0])
    records = tree.get("records")
    return {**tree, **records} if isinstance(records, dict) else tree


def _table(text: str) -> dict[str, object]:
    """The metrics of the CSV, as the JSON has them; empty for another text."""
    if not text.lstrip().startswith("Metric,"):
        return {}
    found: dict[str, object] = {}
    heads: list[str] = []
    for row in csv.reader(io.StringIO(text.lstrip())):
        match = _NAMED.match(row[0].strip()) if len(row) > 1 else None
        if len(row) > 1 and row[0] == "Metric":
            heads = ["avg" if head == "Value" else head for head in row[1:]]
        elif match and heads:
            values = {head: number for head, cell in zip(heads, row[1:], strict=False) if (number := _cell(cell))}
            found[match[1].lower().replace(" ", "_")] = {"unit": match[2] or "", **values}
    return found


def _cell(text: str) -> float | None:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


def read(content: Content) -> Reported:
    """One row."""
    fields = Fields(content, _metrics(content))
    run = _run(fields)
    config = fields.inner("input_config")
    return Reported(
        tool=("GenAI-Perf" if _is_genai(fields) else "AIPerf") if content.documents else "AIPerf or GenAI-Perf",
        form="JSON" if content.documents else "CSV",
        model=_model(config),
        accelerators=tuple(dict.fromkeys(_gpus(fields))),
        rows=(serving.row(run),),
        checks=serving.checks([run]),
    )


def _is_genai(fields: Fields) -> bool:
    config = fields.inner("input_config").tree
    return any(key in config for key in ("perf_analyzer", "service_kind", "formatted_model_name"))


def _gpus(fields: Fields) -> list[str]:
    found = []
    for endpoint in fields.inner("telemetry_data").inner("endpoints").tree.values():
        for gpu in Fields(fields.content, endpoint).inner("gpus").tree.values():
            name = Fields(fields.content, gpu).text("gpu_name")
            found += [name] if name else []
    return found


def _run(fields: Fields) -> Served:
    requests = statistic(fields, "request_count")
    most = _concurrency(fields)
    ttft, itl = central(fields, "time_to_first_token"), central(fields, "inter_token_latency")
    alone = most == 1 or (most is None and requests == 1)
    return Served(
        label=f"concurrency {most:,.0f}" if most else "the run",
        prompt=statistic(fields, "input_sequence_length"),
        answer=statistic(fields, "output_sequence_length"),
        requests=requests,
        duration=seconds(fields, "benchmark_duration"),
        rate=statistic(fields, "request_throughput"),
        most=most,
        ttft=ttft,
        tpot=between(itl.value, None, None, "s", f"{itl.source}, to the last response") if itl else None,
        total=seconds(fields, "request_latency"),
        gap=seconds(fields, "inter_chunk_latency", "p50"),
        figures=_figures(fields, alone),
    )


def _concurrency(fields: Fields) -> float | None:
    """As the configuration says, wherever the version keeps it; else by the command line that it repeats."""
    config = fields.inner("input_config")
    phases = [Fields(fields.content, one) for one in config.items("phases")]
    for place in (
        config.inner("loadgen"),
        config.inner("perf_analyzer").inner("stimulus"),
        config,
        *(one for one in phases if one.text("name") != "warmup"),
    ):
        value = place.tree.get("concurrency")
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
        if isinstance(value, int | float) and not isinstance(value, bool) and value >= 1:
            return float(value)
    found = _FLAG.search(config.text("cli_command"))
    return float(found[1]) if found else None


def _model(config: Fields) -> str:
    """As the configuration names it, wherever the version keeps it."""
    for names in (config.inner("endpoint").items("model_names"), config.items("model_names"), config.items("model")):
        if names and isinstance(names[0], str):
            return names[0]
    for one in config.inner("models").items("items"):
        return Fields(config.content, one).text("name")
    return config.text("model", "model_name") or config.inner("endpoint").text("model")


def statistic(fields: Fields, name: str, which: str = "avg") -> float | None:
    """A metric's statistic in the tool's unit."""
    return fields.inner(name).number(which)


def seconds(fields: Fields, name: str, which: str = "avg") -> float | None:
    """A time, by the unit that stands beside it.

    Raises:
        InputError: a unit that is none of time.
    """
    metric = fields.inner(name)
    value = metric.number(which)
    unit = str(metric.tree.get("unit", "ms"))
    if value is not None and unit not in UNITS:
        metric.wrong("unit", unit, "which is no unit of time known here (s, ms, us, ns)")
    return None if value is None else value * UNITS[unit]


def central(fields: Fields, name: str) -> Quantity | None:
    """A time's median, or its mean where there is none."""
    for which, word in (("p50", "median"), ("avg", "mean")):
        value = seconds(fields, name, which)
        if value is not None:
            return reported(value, "s", f"{word} {name}")
    return None


def _figures(fields: Fields, alone: bool) -> tuple[Figure, ...]:
    prefill = "TTFT of a request alone: its prefill and the client's share" if alone else "TTFT, queue included"
    found: tuple[Figure, ...] = ()
    for which in ("p50", "avg", "p99"):

        def time(name: str, which: str = which) -> float | None:
            return seconds(fields, name, which)

        ttft, itl = time("time_to_first_token"), time("inter_token_latency")
        found += figure(f"time_to_first_token.{which}", ttft, "s", "ttft", _TTFT, prefill)
        found += figure(f"inter_token_latency.{which}", itl, "s", "tpot", _ITL, _AS_TPOT, "within bounds")
        gap, total = time("inter_chunk_latency"), time("request_latency")
        found += figure(
            f"inter_chunk_latency.{which}", gap, "s", "icl", "gap between chunks", "a chunk gap, no token time", "none"
        )
        found += figure(
            f"request_latency.{which}", total, "s", "request time", "send to the last response", "as it stands"
        )
    rate = statistic(fields, "request_throughput")
    found += figure("request_throughput.avg", rate, "request/s", "request rate", "requests / duration", "as it stands")
    output = statistic(fields, "output_token_throughput")
    found += refused("output_token_throughput.avg", output, "token/s", "answer tokens / duration", OVER_BOTH)
    total_rate = statistic(fields, "total_token_throughput")
    return found + refused(
        "total_token_throughput.avg", total_rate, "token/s", "prompt and answer tokens / duration", MIXED
    )
