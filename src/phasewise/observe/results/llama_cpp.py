"""llama.cpp's own timings: ``timings`` in the answers of its server (JSON or a recorded stream), and its log lines
(llama_print_timings, llama_perf_context_print, the server's print_timing).

The server's ``predicted_n`` counts the first token, whose time is in ``prompt_ms``: a step takes predicted_ms /
(predicted_n − 1); its own rate divides by n in older versions and by n − 1 in newer ones. ``prompt_n`` counts computed
tokens only (``cache_n`` the cached ones). Log lines of the library count steps ("runs") as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from phasewise.observe.results.content import Content, Fields
from phasewise.observe.results.figures import MS, decode, figure, mean_context, prefill
from phasewise.record.quantity import reported
from phasewise.record.results import Reported, Row

FORM = "llama.cpp timings JSON or log lines"

_LINE = re.compile(
    r"^(.*?)\b(prompt eval time|eval time)\s*=\s*(\d+(?:\.\d+)?) ms /\s*(\d{1,12}) (tokens|runs)\b", re.MULTILINE
)


def sniff(content: Content) -> bool:
    """Whether there is an object with timings, or a line of them."""
    return any(_timings(one) for one in _objects(content)) or (
        not content.documents and bool(_LINE.search(content.text))
    )


def _objects(content: Content) -> Iterator[Mapping[str, Any]]:
    """JSON documents, or those behind ``data:`` and after HTTP headers in a recorded answer."""
    yield from content.objects
    if content.documents or '"predicted_ms"' not in content.text:
        return
    for line in content.text.splitlines():
        text = line.removeprefix("data:").strip()
        if text.startswith("{") and '"predicted_ms"' in text:
            try:
                one = msgspec.json.decode(text)
            except msgspec.DecodeError:
                continue
            if isinstance(one, dict):
                yield one


def _timings(one: Mapping[str, Any]) -> Mapping[str, Any]:
    inner = one.get("timings", one)
    return inner if isinstance(inner, Mapping) and "predicted_ms" in inner and "prompt_ms" in inner else {}


def read(content: Content) -> Reported:
    """A row per answer."""
    objects = [one for one in _objects(content) if _timings(one)]
    rows = [
        _served(Fields(content, _timings(one), "timings."), i, len(objects)) for i, one in enumerate(objects, 1)
    ] or list(_logged(content))
    model = next((one["model"] for one in objects if isinstance(one.get("model"), str)), "")
    return Reported(tool="llama.cpp", form="timings JSON" if objects else "log lines", model=model, rows=tuple(rows))


def _served(fields: Fields, number: int, many: int) -> Row:
    cached = fields.number("cache_n") or 0.0
    prompt, first = fields.number("prompt_n"), fields.number("prompt_ms", scale=MS)
    count, duration = fields.number("predicted_n"), fields.number("predicted_ms", scale=MS)
    step = duration / (count - 1) if duration and count and count > 1 else None
    found = figure(
        "prompt_ms", first, "s", "prefill time", "time of the prompt_n tokens that were not cached", "as it stands"
    )
    how = "a step takes predicted_ms / (predicted_n - 1): the first token comes from the prompt's pass"
    found += figure("predicted_ms", duration, "s", "other", "first token to last", how)
    if fields.number("draft_n"):
        step = None
    why = "speculative decoding: a step gives several tokens" if fields.number("draft_n") else "fewer than two tokens"
    before = (prompt or 0.0) + cached
    return Row(
        label=f"answer {number}" if many > 1 else "the answer",
        prompt_tokens=before or None,
        answer_tokens=count,
        ttft=reported(first, "s", "prompt_ms") if first else None,
        tpot=reported(step, "s", "predicted_ms / (predicted_n - 1)") if step else None,
        figures=found,
        prefill=prefill(prompt, reported(first, "s", "prompt_ms"), cached=cached) if prompt and first else None,
        decode=decode(mean_context(before, count), reported(step, "s", how)) if step and count else None,
        missing={
            **({} if prompt and first else {"prefill": "no prompt token was computed: all were cached"}),
            **({} if step else {"decode": why}),
        },
    )


def _logged(content: Content) -> Iterator[Row]:
    """A prompt line and the eval line that follows it are one answer."""
    found = [
        (head, name, float(ms) * MS, float(count), unit) for head, name, ms, count, unit in _LINE.findall(content.text)
    ]
    pairs: list[dict[str, tuple[float, float, str]]] = []
    for _, name, seconds, count, unit in found:
        if name == "prompt eval time" or not pairs or name in pairs[-1]:
            pairs.append({})
        pairs[-1][name] = (seconds, count, unit)
    for number, pair in enumerate(pairs, 1):
        first, prompt, _ = pair.get("prompt eval time", (0.0, 0.0, ""))
        duration, count, unit = pair.get("eval time", (0.0, 0.0, "runs"))
        steps = count if unit == "runs" else count - 1
        step = duration / steps if duration > 0 and steps >= 1 else 0.0
        counted = "steps" if unit == "runs" else "tokens, the first of which is no step"
        how = f"eval time over its {counted}"
        yield Row(
            label=f"answer {number}" if len(pairs) > 1 else "the answer",
            prompt_tokens=prompt or None,
            answer_tokens=steps + 1 if step else None,
            ttft=reported(first, "s", "prompt eval time") if first else None,
            tpot=reported(step, "s", how) if step else None,
            figures=figure("prompt eval time", first or None, "s", "prefill time", "all prompt batches", "as it stands")
            + figure("eval time", duration or None, "s", "other", f"all steps; it counts {counted}", how),
            prefill=prefill(prompt, reported(first, "s", "prompt eval time")) if prompt and first else None,
            decode=decode(mean_context(prompt, steps + 1), reported(step, "s", how)) if step else None,
            missing={
                **({} if prompt and first else {"prefill": "no prompt token was computed"}),
                **({} if step else {"decode": "no step was timed"}),
            },
        )
