"""SGLang `bench_one_batch` (in process) and `bench_one_batch_server` (over HTTP): JSON lines, one object a shape.

The first times the phases of one batch apart. The second takes the last request's TTFT as the prefill of all, and
keeps the first tokens in the decode numerator ("historical numerator"): subtracted here
(python/sglang/benchmark/one_batch*.py).
"""

from __future__ import annotations

from phasewise.observe.results.content import Content, Fields, each
from phasewise.observe.results.figures import MIXED, decode, figure, mean_context, prefill, refused
from phasewise.record.quantity import Quantity, reported
from phasewise.record.results import Figure, Reported, Row, Step

FORM = "SGLang bench_one_batch JSON lines"


def sniff(content: Content) -> bool:
    """Whether it is of one of the two."""
    return content.has("batch_size", "input_len", "output_len") and (
        content.has("prefill_latency") or content.has("last_ttft") or content.has("latency", "output_throughput")
    )


def read(content: Content) -> Reported:
    """A row per shape."""
    server = not content.has("prefill_latency")
    rows = [row for row in each(content, _over_http if server else _in_process) if row]
    if not rows:
        content.wrong("has no shape with a time: measure again")
    return Reported(
        tool=f"SGLang bench_one_batch{'_server' if server else ''}",
        form="JSON lines",
        model=Fields(content, content.objects[0]).text("model", "model_path"),
        rows=tuple(rows),
    )


def _shape(fields: Fields) -> tuple[float, float, float]:
    batch, prompt, answer = (fields.number(name) for name in ("batch_size", "input_len", "output_len"))
    if batch is None or prompt is None or answer is None:
        fields.content.wrong("has a shape without batch_size, input_len or output_len: measure again")
    return batch, prompt, answer


def _in_process(fields: Fields) -> Row:
    batch, prompt, answer = _shape(fields)
    first, step = fields.number("prefill_latency"), fields.number("median_decode_latency")
    found: tuple[Figure, ...] = figure(
        "prefill_latency", first, "s", "prefill time", "one pass over the whole batch, in process", "as it stands"
    )
    found += figure(
        "median_decode_latency", step, "s", "decode step", "one step of the whole batch, in process", "as it stands"
    )
    total = fields.number("overall_throughput")
    found += refused("overall_throughput", total, "token/s", "prompt and answer tokens / total latency", MIXED)
    return _row(
        (batch, prompt, answer),
        reported(first, "s", "prefill_latency") if first else None,
        reported(step, "s", "median_decode_latency") if step else None,
        found,
    )


def _over_http(fields: Fields) -> Row:
    batch, prompt, answer = _shape(fields)
    first, whole = fields.number("last_ttft"), fields.number("latency")
    first = first or _first(fields, batch * prompt)
    found: tuple[Figure, ...] = figure(
        "last_ttft",
        first,
        "s",
        "prefill time",
        "send to the first token of the last request",
        "the pass of all prompts",
    )
    how = "latency less last_ttft over the steps: the first token of each request is no step"
    found += figure(
        "output_throughput", fields.number("output_throughput"), "token/s", "decode rate", "all tokens, the first too, "
        "over the time after last_ttft", how,
    )  # fmt: skip
    total = fields.number("overall_throughput")
    found += refused("overall_throughput", total, "token/s", "prompt and answer tokens / latency", MIXED)
    step = (whole - first) / (answer - 1) if first and whole and answer > 1 and whole > first else None
    row = _row(
        (batch, prompt, answer),
        reported(first, "s", "last_ttft") if first else None,
        reported(step, "s", how) if step else None,
        found,
    )
    hits = fields.number("cache_hit_rate")
    if row.prefill and hits:
        why = f"{hits:.0%} of the prompt tokens were cached, so the pass computed fewer than it says"
        return Row(
            **{f: getattr(row, f) for f in row.__struct_fields__} | {"prefill": None, "missing": {"prefill": why}}
        )
    return row


def _first(fields: Fields, prompts: float) -> float | None:
    rate = fields.number("input_throughput")
    return prompts / rate if rate else None


def _row(
    shape: tuple[float, float, float], first: Quantity | None, step: Quantity | None, found: tuple[Figure, ...]
) -> Row:
    batch, prompt, answer = shape
    pass_: Step | None = prefill(prompt, first, batch=batch) if first else None
    return Row(
        label=f"batch {batch:,.0f}, {prompt:,.0f} in, {answer:,.0f} out",
        prompt_tokens=prompt,
        answer_tokens=answer,
        concurrency=reported(batch, "request", "one batch at a time"),
        ttft=first,
        tpot=step,
        figures=found,
        prefill=pass_,
        decode=decode(mean_context(prompt, answer), step, batch=batch) if step else None,
        missing={
            **({} if first else {"prefill": "no prefill time is given"}),
            **({} if step else {"decode": "no decode step is given: answers of one token"}),
        },
    )
