"""What vLLM's and SGLang's serving benchmarks print ("Serving Benchmark Result"), pasted; several runs are a sweep.

The figures are those of the tools' JSON, under the words that they print.
"""

from __future__ import annotations

import re

from phasewise.observe.results import serving, sglang, vllm
from phasewise.observe.results.content import Content, Fields
from phasewise.record.results import Reported

FORM = "printed result of vLLM or SGLang bench serving"

_HEAD = "Serving Benchmark Result"
_LINE = re.compile(r"^(?:#\s*)?([A-Z][^:\n]{3,60}):\s+(\d+(?:\.\d+)?|inf|not set)\s*$", re.MULTILINE)

_KEYS = {
    "successful requests": ("completed", "completed"),
    "failed requests": ("failed", "failed"),
    "maximum request concurrency": ("max_concurrency", "max_concurrency"),
    "max request concurrency": ("max_concurrency", "max_concurrency"),
    "traffic request rate": ("request_rate", "request_rate"),
    "request rate configured (rps)": ("request_rate", "request_rate"),
    "benchmark duration (s)": ("duration", "duration"),
    "total input tokens": ("total_input_tokens", "total_input"),
    "total generated tokens": ("total_output_tokens", "total_output"),
    "request throughput (req/s)": ("request_throughput", "request_throughput"),
    "input token throughput (tok/s)": ("input_throughput", "input_throughput"),
    "output token throughput (tok/s)": ("output_throughput", "output_throughput"),
    "total token throughput (tok/s)": ("total_token_throughput", "total_throughput"),
    "accept length": ("spec_decode_acceptance_length", "accept_length"),
    "acceptance length": ("spec_decode_acceptance_length", "accept_length"),
}
_STATISTIC = re.compile(r"^(Mean|Median|P99) (TTFT|TPOT|ITL|E2EL|E2E Latency) \(ms\)$")


def sniff(content: Content) -> bool:
    """Whether the heading is there."""
    return not content.documents and _HEAD in content.text and bool(_LINE.search(content.text))


def read(content: Content) -> Reported:
    """A row per printed result."""
    parts = content.text.split(_HEAD)[1:]
    of_sglang = "Backend:" in content.text or "(retokenized)" in content.text
    module, name = (sglang, "SGLang bench_serving") if of_sglang else (vllm, "vLLM bench serve")
    runs = []
    for number, part in enumerate(parts, 1):
        tree = _tree(part, 1 if of_sglang else 0)
        if "completed" in tree:
            runs.append(module.run(Fields(content, tree, f"result {number} " if len(parts) > 1 else "")))
    if not runs:
        content.wrong("has no printed result with its requests: paste all lines of one")
    return Reported(
        tool=name, form="printed", rows=tuple(serving.row(run) for run in runs), checks=serving.checks(runs)
    )


def _tree(text: str, which: int) -> dict[str, object]:
    """The lines of one result under the keys of the tool's JSON."""
    found: dict[str, object] = {}
    for name, value in _LINE.findall(text):
        name = " ".join(name.split())
        keys = _KEYS.get(name.lower())
        match = _STATISTIC.match(name)
        key = keys[which] if keys else None
        if match:
            what = {"E2E Latency": "e2e_latency"}.get(match[2], match[2].lower())
            key = f"{match[1].lower()}_{what}_ms"
        if key and key not in found and value.replace(".", "", 1).isdigit():
            found[key] = float(value)
    return found
