"""Ollama: what `ollama run --verbose` prints, or the JSON of its API (durations in ns).

``eval`` counts the first token too, whose time is in ``prompt eval``: a step takes duration / (count − 1), and at
least duration / count. ``prompt eval count`` counts cached tokens where its duration does not: on a cache hit the rate
says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from phasewise.observe.results.content import Content, Fields
from phasewise.observe.results.figures import NS, between, decode, figure, mean_context, prefill
from phasewise.record.observation import Check
from phasewise.record.quantity import reported
from phasewise.record.results import Reported, Row

FORM = "Ollama --verbose text or API JSON"

_LINE = re.compile(
    r"^\s*(total duration|load duration|(?:prompt )?eval (?:count|duration|rate)):\s+(.+?)\s*$", re.MULTILINE
)
_PART = re.compile(r"(\d+(?:\.\d+)?)(h|ms|m|s|µs|μs|us|ns)")
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "µs": 1e-6, "μs": 1e-6, "us": 1e-6, "ns": 1e-9}

_CACHED = (
    "Ollama does not say how much of the prompt was cached; cached tokens are in the count and not in the time, so a "
    "prompt sent before, or continued, gives a prefill rate that is far too high"
)


def sniff(content: Content) -> bool:
    """Whether a final object or the printed lines are there."""
    if any("eval_count" in one and "eval_duration" in one for one in content.objects):
        return True
    return not content.documents and len(_LINE.findall(content.text)) >= 3 and "eval duration:" in content.text


def read(content: Content) -> Reported:
    """A row per answer."""
    rows = [row for row in (_from_json(content) if content.documents else _from_text(content)) if row]
    if not rows:
        content.wrong("has no answer with its counts and durations: run it with --verbose to the end")
    return Reported(
        tool="Ollama",
        form="API JSON" if content.documents else "--verbose text",
        model=next((one["model"] for one in content.objects if isinstance(one.get("model"), str)), ""),
        rows=tuple(rows),
        checks=(Check(name="uncached", phase="prefill", status="not_checked", detail=_CACHED),),
    )


def _from_json(content: Content) -> Iterator[Row]:
    final = [one for one in content.objects if "eval_count" in one]
    for number, one in enumerate(final, 1):
        fields = Fields(content, one)
        yield _row(
            f"answer {number}" if len(final) > 1 else "the answer",
            fields.number("prompt_eval_count"),
            fields.number("prompt_eval_duration", scale=NS),
            fields.number("eval_count"),
            fields.number("eval_duration", scale=NS),
        )


def _from_text(content: Content) -> Iterator[Row]:
    """The lines of one answer begin with its total duration."""
    answers: list[dict[str, str]] = []
    for name, value in _LINE.findall(content.text):
        if name == "total duration" or not answers or name in answers[-1]:
            answers.append({})
        answers[-1][name] = value
    for number, said in enumerate(answers, 1):
        yield _row(
            f"answer {number}" if len(answers) > 1 else "the answer",
            _count(content, said.get("prompt eval count")),
            _duration(content, said.get("prompt eval duration")),
            _count(content, said.get("eval count")),
            _duration(content, said.get("eval duration")),
        )


def _count(content: Content, text: str | None) -> float | None:
    if text is None:
        return None
    match = re.match(r"(\d{1,12})\b", text)
    if not match:
        content.wrong(f"has {text[:40]!a} where a number of tokens belongs: keep the lines as Ollama prints them")
    return float(match[1]) or None


def _duration(content: Content, text: str | None) -> float | None:
    """Go's way: ``1m27.05s``, ``617.5ms``."""
    if text is None:
        return None
    parts = _PART.findall(text)
    if not parts or "".join(value + unit for value, unit in parts) != text:
        content.wrong(f"has {text[:40]!a} where a duration belongs: keep the lines as Ollama prints them")
    return sum(float(value) * _SECONDS[unit] for value, unit in parts) or None


def _row(label: str, prompt: float | None, first: float | None, count: float | None, duration: float | None) -> Row:
    step = None
    if count and duration and count > 1:
        step = between(
            duration / (count - 1), duration / count, duration / (count - 1), "s", "eval duration / (count - 1)"
        )
    pass_ = reported(first, "s", "prompt eval duration") if first else None
    found = figure(
        "prompt eval duration",
        first,
        "s",
        "prefill time",
        "time of the prompt tokens that were not cached",
        "as it stands",
    )
    if prompt and first:
        what = "all prompt tokens, cached ones too, over the time of the others"
        how = "a prefill rate only where nothing was cached"
        found += figure("prompt eval rate", prompt / first, "token/s", "prefill rate", what, how, "within bounds")
    if count and duration:
        how = "a step takes duration / (count - 1): the first token comes from the prompt's pass"
        what = "tokens, the first too, over the time after it"
        found += figure("eval rate", count / duration, "token/s", "decode rate", what, how, "within bounds")
    return Row(
        label=label,
        prompt_tokens=prompt,
        answer_tokens=count,
        ttft=pass_,
        tpot=step,
        figures=found,
        prefill=prefill(prompt, pass_, notes=_CACHED) if prompt and pass_ else None,
        decode=decode(mean_context(prompt or 0.0, count), step) if step and count else None,
        missing={
            **(
                {}
                if prompt and pass_
                else {"prefill": "prompt eval count or duration is not given: all of it was cached"}
            ),
            **({} if step else {"decode": "eval count and duration of more than one token are not given"}),
        },
    )
