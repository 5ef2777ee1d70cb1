"""A file to what it says, by the reader that knows it."""

from __future__ import annotations

import re
from pathlib import Path

from phasewise.observe.results import (
    Reader,
    aiperf,
    aiperf_records,
    guidellm,
    inference_benchmarker,
    llama_bench,
    llama_benchy,
    llama_cpp,
    ollama,
    printed,
    sglang,
    sglang_batch,
    tgi,
    trtllm,
    vllm,
    vllm_offline,
)
from phasewise.observe.results.content import Content, opened
from phasewise.record.results import Reported

READERS: tuple[Reader, ...] = (
    sglang,
    vllm,
    sglang_batch,
    vllm_offline,
    aiperf_records,
    guidellm,
    llama_benchy,
    inference_benchmarker,
    trtllm,
    llama_bench,
    aiperf,
    llama_cpp,
    ollama,
    tgi,
    printed,
)  # fmt: skip
"""Every reader, the one with the most telling marks first."""

MOST_ROWS = 1000
"""Measurements of one file: a sweep has tens."""

_RATE = re.compile(r"\b\d[\d.,]*\s*(?:tok(?:en)?s?)\s*(?:/|per)\s*s(?:ec(?:ond)?)?\b", re.IGNORECASE)
_LOG = re.compile(r"(?i)^\W*(timestamp|time|contexttokens|prompt_tokens|arrived_at)\b.*tokens", re.MULTILINE)

WHICH = "prefill or decode? give it as --prefill-tok-s or --decode-tok-s"
"""What is asked about a rate without a phase."""


def read(path: Path) -> Reported:
    """What the file at ``path`` says.

    Raises:
        InputError: no result of a known form, or one with numbers that no measurement gives.
    """
    content = opened(path)
    for reader in READERS:
        if reader.sniff(content):
            found = reader.read(content)
            if len(found.rows) > MOST_ROWS:
                content.wrong(
                    f"holds {len(found.rows):,} measurements, more than {MOST_ROWS:,}: keep those of one sweep"
                )
            return Reported(**{name: getattr(found, name) for name in found.__struct_fields__} | {"file": path.name})
    _elsewhere(content)
    return content.wrong(f"is of no known form: phasewise judges {'; '.join(reader.FORM for reader in READERS)}")


def _elsewhere(content: Content) -> None:
    """Refuse what another verb reads, and what asks for a phase."""
    start = content.text.lstrip()[:200].lower()
    if start.startswith(("<!doctype", "<html", "<?xml", "<")):
        content.wrong("is a web page, no result: save the tool's own JSON")
    if content.has("envelope", "schema") or content.has("run", "schema", "provenance"):
        content.wrong("is a run of phasewise: show it again with `phasewise report`")
    if content.has("experiments", "version"):
        content.wrong(
            "is perf_analyzer's raw export, which counts no tokens: name profile_export_genai_perf.json beside it"
        )
    if content.has("error_summary", "input_config"):
        content.wrong("is of a run of AIPerf in which no request succeeded: look at its error_summary")
    if content.has("benchmark", "metric", "model"):
        content.wrong(
            "is vLLM's result in the form of PyTorch's database, a figure an entry: name the JSON of --save-result "
            "(without .pytorch)"
        )
    if content.has("traceEvents") or (content.objects and {"ph", "ts"} <= content.objects[0].keys()):
        content.wrong("is a trace: read it with `phasewise trace`")
    if content.has("input_length", "output_length") or (not content.documents and _LOG.search(content.text[:400])):
        content.wrong("is a log of requests: read it with `phasewise logs`")
    if not content.documents and _RATE.search(content.text):
        content.wrong(f"gives tokens a second and does not say of which phase: {WHICH}")
    for key, value in content.objects[0].items() if content.objects else ():
        if isinstance(value, int | float) and re.fullmatch(
            r"(?i)(tok(en)?s?_?(per_?s(ec(ond)?)?|/s|ps)|tps|throughput)", key
        ):
            content.wrong(f"gives {key[:40]!a} and does not say of which phase: {WHICH}")
