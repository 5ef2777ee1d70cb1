"""Text Generation Inference `text-generation-benchmark`: the Markdown tables that it prints (benchmark/src/table.rs).

Prefill and decode of each batch apart, over the router's own protocol, without HTTP. Prefill throughput counts prompts
a second, not tokens, whatever its unit says; a decode step gives one token to each request of the batch.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from phasewise.observe.results import table
from phasewise.observe.results.content import Content
from phasewise.observe.results.figures import MS, decode, figure, mean_context, prefill, refused
from phasewise.record.quantity import Quantity, reported
from phasewise.record.results import Figure, Reported, Row

FORM = "TGI text-generation-benchmark Markdown"

_NUMBER = re.compile(r"^(\d+(?:\.\d+)?) (ms|tokens/secs)$")
_PROMPTS = "it divides prompts, not tokens, by the time of the pass: a pass is taken from its latency"


def sniff(content: Content) -> bool:
    """Whether its parameters and its steps are there."""
    return not content.documents and "Sequence Length" in content.text and "Batch Size" in content.text


def read(content: Content) -> Reported:
    """A row per batch size."""
    tables = table.markdown(content.text)
    said = {row.get("Parameter", ""): row.get("Value", "") for rows in tables for row in rows if "Parameter" in row}
    prompt, answer = (_whole(content, said, name) for name in ("Sequence Length", "Decode Length"))
    steps: dict[tuple[str, str], dict[str, str]] = {}
    rates: dict[tuple[str, str], dict[str, str]] = {}
    for rows in tables:
        if "Batch Size" in rows[0]:
            _collect(rows, steps if "p50" in rows[0] else rates)
    batches = list(dict.fromkeys(batch for _, batch in steps))
    found = [_row(content, batch, prompt, answer, steps, rates) for batch in batches]
    if not found:
        content.wrong("has no table of latencies: keep all three tables that the benchmark prints")
    return Reported(
        tool="TGI text-generation-benchmark", form="Markdown", model=said.get("Model", ""), rows=tuple(found)
    )


def _collect(rows: list[dict[str, str]], into: dict[tuple[str, str], dict[str, str]]) -> None:
    """By step and batch; a merged cell is empty and means the one above."""
    step = ""
    for row in rows:
        step = row.get("Step") or step
        into[step, row["Batch Size"]] = row


def _whole(content: Content, said: Mapping[str, str], name: str) -> float:
    text = said.get(name, "")
    if not text.isascii() or not text.isdigit() or not 0 < int(text) < 10**8:
        content.wrong(f"has no {name} in its table of parameters: keep all tables that the benchmark prints")
    return float(text)


def _value(content: Content, row: Mapping[str, str] | None, unit: str) -> float | None:
    """The median of a latency, the average of a rate."""
    text = (row or {}).get("p50") or (row or {}).get("Average")
    if not text:
        return None
    match = _NUMBER.match(text)
    if not match or match[2] != unit:
        if text.startswith("NaN"):
            return None
        content.wrong(f"has {text[:40]!a} where a number of {unit} belongs: keep the tables as they were printed")
    return float(match[1]) or None


def _row(
    content: Content,
    batch: str,
    prompt: float,
    answer: float,
    steps: Mapping[tuple[str, str], Mapping[str, str]],
    rates: Mapping[tuple[str, str], Mapping[str, str]],
) -> Row:
    if not batch.isascii() or not batch.isdigit() or not int(batch):
        content.wrong(f"has {batch[:40]!a} as a batch size: keep the tables as they were printed")
    many = float(batch)
    first = _value(content, steps.get(("Prefill", batch)), "ms")
    step = _value(content, steps.get(("Decode (token)", batch)), "ms")
    found: tuple[Figure, ...] = figure(
        "Prefill p50", first * MS if first else None, "s", "prefill time", "one pass over the batch", "as it stands"
    )
    found += figure(
        "Decode (token) p50", step * MS if step else None, "s", "decode step", "decode time / steps", "as it stands"
    )
    found += refused(
        "Prefill throughput", _value(content, rates.get(("Prefill", batch)), "tokens/secs"), "token/s",
        "prompts / time, called tokens", _PROMPTS,
    )  # fmt: skip
    decode_rate = _value(content, rates.get(("Decode", batch)), "tokens/secs")
    found += figure("Decode throughput", decode_rate, "token/s", "decode rate", "batch x steps / time", "as it stands")
    pass_ = reported(first * MS, "s", "median prefill latency") if first else None
    one: Quantity | None = reported(step * MS, "s", "median decode latency of a token") if step else None
    return Row(
        label=f"batch {batch}",
        prompt_tokens=prompt,
        answer_tokens=answer,
        concurrency=reported(many, "request", "one batch at a time"),
        ttft=pass_,
        tpot=one,
        figures=found,
        prefill=prefill(prompt, pass_, batch=many) if pass_ else None,
        decode=decode(mean_context(prompt, answer), one, batch=many) if one else None,
        missing={
            **({} if pass_ else {"prefill": "the batch has no prefill latency"}),
            **({} if one else {"decode": "the batch has no decode latency"}),
        },
    )
