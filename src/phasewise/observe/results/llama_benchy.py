"""llama-benchy JSON, or its Markdown table: pp and tg at a depth of context, over HTTP (llama_benchy/results.py).

pp t/s is prompt tokens over ``est_ppt``, the first response less a measured network latency; tg t/s is (tokens − 1)
over the time after the first token. With a concurrency over 1 both are totals over the batch, from the first send to
the last first token and from the first first token to the last token, so that their windows overlap.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from phasewise.observe.results import table
from phasewise.observe.results.content import Content, Fields
from phasewise.observe.results.figures import MS, decode, figure, from_rate, mean_context, prefill, requests
from phasewise.record.observation import Phase
from phasewise.record.quantity import Quantity, reported
from phasewise.record.results import Reported, Row, Step

FORM = "llama-benchy JSON or Markdown"

_TEST = re.compile(r"^(ctx_)?(pp|tg)(\d*)(?: @ d(\d+))?(?: \(c(\d+)\))?$")
_VALUE = re.compile(r"^(\d+(?:\.\d+)?)(?![\d.])(?: ± (\d+(?:\.\d+)?)(?![\d.]))?")
_PP = "prompt tokens / (first response - measured latency)"
_TG = "(tokens - 1) / (last token - first)"
_TOGETHER = "requests ran together, so the time to the first response holds their queue and is no prefill time"
_DEEP = "the context before it is taken to be cached by the server; if it was computed again, the figure is far too low"


def sniff(content: Content) -> bool:
    """Whether it is its report, or its table with ``est_ppt``."""
    if content.has("benchmarks", "latency_mode"):
        return True
    return not content.documents and "est_ppt (ms)" in content.text and bool(table.markdown(content.text))


def read(content: Content) -> Reported:
    """A row per test."""
    if content.documents:
        top = Fields(content, content.objects[0])
        rows = [_run(Fields(content, one, f"benchmark {i} ")) for i, one in enumerate(top.items("benchmarks"), 1)]
        return Reported(tool="llama-benchy", form="JSON", model=top.text("model"), rows=_some(content, rows))
    entries = [row for rows in table.markdown(content.text) for row in rows if _TEST.match(row.get("test", "?"))]
    return Reported(
        tool="llama-benchy",
        form="Markdown",
        model=entries[0].get("model", "") if entries else "",
        rows=_some(content, list(_lines(content, entries))),
    )


def _some(content: Content, rows: list[Row]) -> tuple[Row, ...]:
    if not rows:
        content.wrong("has no test with a rate: measure again")
    return tuple(rows)


def _run(fields: Fields) -> Row:
    """One benchmark of the JSON form."""
    depth = fields.number("context_size") or 0.0
    prompt, answer = fields.number("prompt_size") or 0.0, fields.number("response_size") or 0.0
    many = fields.number("concurrency") or 1.0
    if fields.tree.get("is_context_prefill_phase"):
        prompt, depth = depth or prompt, 0.0
    pp, tg = (fields.inner(name) for name in ("pp_throughput", "tg_throughput"))
    one = fields.inner("tg_req_throughput")
    rates = pp.number("mean"), (one.number("mean") if many > 1 else None) or tg.number("mean")
    spreads = pp.number("std"), (one if many > 1 and one.tree else tg).number("std")
    times = {name: fields.inner(name).number("mean", scale=MS) for name in ("ttfr", "est_ppt", "e2e_ttft")}
    return _row((prompt, answer, depth, many), rates, spreads, times)


def _lines(content: Content, entries: list[dict[str, str]]) -> Iterator[Row]:
    """The table's lines: an answer (tg) follows the prompt (pp) that stands above it."""
    before = 0.0
    for entry in entries:
        match = _TEST.match(entry["test"])
        if match and match[2] == "pp":
            before = float(match[3] or 0.0)
        yield _line(content, entry, before)


def _line(content: Content, entry: Mapping[str, Any], before: float) -> Row:
    """One line of the table: pp, or tg after ``before`` tokens of prompt."""
    match = _TEST.match(entry["test"])
    assert match
    count, depth, many = (float(part) if part else 0.0 for part in (match[3], match[4], match[5]))
    total = "t/s (total)" in entry
    rate, spread = _value(entry.get("t/s") or entry.get("t/s (total)", ""))
    times = {name: _value(entry.get(f"{name} (ms)", ""))[0] for name in ("ttfr", "est_ppt", "e2e_ttft")}
    if match[1] and match[2] == "pp":
        count, depth = depth, 0.0
    if many == 0.0:
        many = 2.0 if total else 1.0
    pp = match[2] == "pp"
    own, _ = _value(entry.get("t/s (req)", ""))
    if rate is None:
        content.wrong(f"has no rate for the test {entry['test'][:40]!a}: measure again")
    shape = (count if pp else before, 0.0 if pp else count, depth, many)
    rates = (rate, None) if pp else (None, own if many > 1 else rate)
    spreads = (spread, None) if pp else (None, spread if many == 1 else None)
    return _row(shape, rates, spreads, {name: t * MS if t else None for name, t in times.items()})


def _value(text: str) -> tuple[float | None, float | None]:
    match = _VALUE.match(text.strip())
    return (float(match[1]) or None, float(match[2]) if match[2] else None) if match else (None, None)


def _row(
    shape: tuple[float, float, float, float],
    rates: tuple[float | None, float | None],
    spreads: tuple[float | None, float | None],
    times: Mapping[str, float | None],
) -> Row:
    prompt, answer, depth, many = shape
    name = " ".join([*([f"pp{prompt:.0f}"] if prompt else []), *([f"tg{answer:.0f}"] if answer else [])])
    found = (
        figure("pp t/s", rates[0], "token/s", "prefill rate", _PP, "a pass over the prompt takes tokens / rate")
        + figure("tg t/s", rates[1], "token/s", "decode rate", _TG, "1 / rate is TPOT")
        + figure("est_ppt", times["est_ppt"], "s", "prefill time", "first response - measured latency", "as it stands")
        + figure("e2e_ttft", times["e2e_ttft"], "s", "ttft", "send to the first token", "as it stands")
    )
    pass_, step = _pass(shape, rates[0], spreads[0]), _step(shape, rates[1], spreads[1])
    missing: dict[Phase, str] = {}
    if isinstance(pass_, str):
        missing["prefill"] = pass_
    if isinstance(step, str):
        missing["decode"] = step
    return Row(
        label=f"{name}{f' @ d{depth:.0f}' if depth else ''}{f', concurrency {many:.0f}' if many > 1 else ''}",
        prompt_tokens=(prompt + depth) or None,
        answer_tokens=answer or None,
        concurrency=requests(many, "at once"),
        ttft=reported(times["e2e_ttft"], "s", "e2e_ttft") if times["e2e_ttft"] else None,
        tpot=step.time if isinstance(step, Step) else None,
        figures=found,
        prefill=pass_ if isinstance(pass_, Step) else None,
        decode=step if isinstance(step, Step) else None,
        missing=missing,
    )


def _pass(shape: tuple[float, float, float, float], rate: float | None, spread: float | None) -> Step | str:
    prompt, _, depth, many = shape
    if rate is None or not prompt:
        return "the test has no prompt of its own"
    if many > 1:
        return _TOGETHER
    time = from_rate(rate, prompt, "tokens / pp rate, network taken off", spread)
    return prefill(prompt, time, cached=depth, notes=_DEEP if depth else "")


def _step(shape: tuple[float, float, float, float], rate: float | None, spread: float | None) -> Step | str:
    prompt, answer, depth, many = shape
    if rate is None or not answer:
        return "the test gives no rate of one request's answer"
    time: Quantity = from_rate(rate, 1.0, "1 / tg rate", spread)
    notes = "its steps also hold other requests' prefills" if many > 1 else ""
    return decode(mean_context(depth + prompt, answer), time, batch=many, least=many > 1, notes=notes)
