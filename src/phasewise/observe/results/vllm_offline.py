"""vLLM `bench latency` and `bench throughput`: times of whole batches, both phases in one (vllm/benchmarks/).

Neither file says how long prompts and answers are, nor the batch, so no phase can be told from either.
"""

from __future__ import annotations

from phasewise.observe.results.content import Content, Fields
from phasewise.observe.results.figures import MIXED, figure, refused
from phasewise.record.results import Figure, Reported, Row

FORM = "vLLM bench latency or throughput JSON"

_WHOLE = (
    "it times the whole request, prefill and decode in one: run `vllm bench serve --max-concurrency 1`, or twice with "
    "--output-len 1 and longer, and give --ttft and --tpot"
)


def sniff(content: Content) -> bool:
    """Whether it is one of the two."""
    return content.has("avg_latency", "latencies") or content.has("elapsed_time", "tokens_per_second")


def read(content: Content) -> Reported:
    """One row, without a phase."""
    fields = Fields(content, content.objects[0])
    latency = fields.number("avg_latency")
    found: tuple[Figure, ...] = figure(
        "avg_latency",
        latency,
        "s",
        "request time",
        "time of a batch from its prompts to its last token",
        _WHOLE,
        "none",
    )
    rate = fields.number("requests_per_second")
    found += figure("requests_per_second", rate, "request/s", "request rate", "requests / elapsed time", "as it stands")
    total = fields.number("tokens_per_second")
    found += refused("tokens_per_second", total, "token/s", "prompt and answer tokens / elapsed time", MIXED)
    return Reported(
        tool="vLLM bench latency" if latency else "vLLM bench throughput",
        form="JSON",
        model=fields.text("model_id"),
        rows=(
            Row(
                label="the run",
                figures=found,
                missing={"prefill": _WHOLE, "decode": _WHOLE},
            ),
        ),
    )
