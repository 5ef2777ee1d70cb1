"""llama-bench in any of its forms: JSON, JSON lines, CSV, Markdown, SQL (llama.cpp tools/llama-bench).

A test is prompt processing (ppN: N tokens in batches of n_batch, in process, no sampling), text generation (tgN: N
steps of one token) or both in one (ppN+tgM, which tells neither), after ``n_depth`` tokens of context. t/s counts the
test's own tokens only, so that tg holds no prompt. ± is the standard deviation of its repeats.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from phasewise.observe.results import table
from phasewise.observe.results.content import Content, Fields
from phasewise.observe.results.figures import MIXED, NS, decode, figure, from_rate, prefill, refused
from phasewise.record.results import Figure, Reported, Row

FORM = "llama-bench JSON, JSON lines, CSV, Markdown or SQL"

_TEST = re.compile(r"^(?:pp(\d+))?\+?(?:tg(\d+))?(?: *@ *d(\d+))?$")
_RATE = re.compile(r"^([\d.]+)\s*(?:±|\+/-)?\s*([\d.]*)")
_SIZE = re.compile(r"^([\d.]+) (MiB|GiB)$")

_UNCACHED = "no prompt is repeated from a cache: each test starts from an empty or prefilled context of its own"


class _Test(NamedTuple):
    prompt: float
    generated: float
    depth: float
    rate: float
    spread: float | None
    batch: float | None


def sniff(content: Content) -> bool:
    """Whether it is in one of the five forms."""
    if content.has("avg_ts", "n_prompt", "n_gen"):
        return True
    return not content.documents and bool(_rows(content))


def _rows(content: Content) -> list[dict[str, Any]]:
    """Rows of the text forms."""
    text = content.text
    if "INSERT INTO llama_bench" in text:
        return [dict(row) for row in table.inserts(text, "llama_bench")]
    first = text.lstrip().partition("\n")[0]
    if "n_prompt" in first and "avg_ts" in first and "," in first:
        return [dict(row) for row in table.comma_separated(text.lstrip())]
    return [
        dict(row) for rows in table.markdown(text) for row in rows if "t/s" in row and _TEST.match(row.get("test", "?"))
    ]


def read(content: Content) -> Reported:
    """A row per test."""
    entries: list[Mapping[str, Any]] = list(content.objects) or list(_rows(content))
    rows = []
    for number, entry in enumerate(entries, 1):
        test = _named(content, entry) if "test" in entry else _counted(content, entry, number)
        if test:
            rows.append(_row(test))
    if not rows:
        content.wrong("has no test with a rate: let llama-bench finish one")
    first = entries[0]
    gpus = str(first.get("gpu_info") or "")
    return Reported(
        tool="llama-bench",
        form=_form(content),
        model=str(first.get("model_filename") or first.get("model") or ""),
        accelerators=tuple(dict.fromkeys(name.strip() for name in gpus.split(",") if name.strip())),
        devices=len(gpus.split(",")) if gpus.strip() else None,
        weight_bytes=_weight_bytes(first),
        rows=tuple(rows),
    )


def _form(content: Content) -> str:
    if content.objects:
        return "JSON" if len(content.documents) == 1 else "JSON lines"
    if "INSERT INTO" in content.text:
        return "SQL"
    return "Markdown" if content.text.lstrip().startswith("|") or "\n|" in content.text else "CSV"


def _weight_bytes(entry: Mapping[str, Any]) -> float | None:
    found = _SIZE.match(str(entry.get("size", "")))
    if found:
        return float(found[1]) * (2.0**30 if found[2] == "GiB" else 2.0**20)
    try:
        return float(entry.get("model_size") or 0) or None
    except (TypeError, ValueError):
        return None


def _named(content: Content, entry: Mapping[str, Any]) -> _Test | None:
    """Of the Markdown form: ``pp512 @ d4096``, ``5443.49 ± 12.30``."""
    test, rate = _TEST.match(str(entry["test"]).strip()), _RATE.match(str(entry.get("t/s", "")).strip())
    if not test or not (test[1] or test[2]):
        return None
    if not rate or not float(rate[1]):
        content.wrong(f"has no rate for the test {str(entry['test'])[:40]!a}: let llama-bench finish it")
    prompt, generated, depth = (float(part or 0) for part in test.groups())
    return _Test(prompt, generated, depth, float(rate[1]), float(rate[2]) if rate[2] else None, None)


def _counted(content: Content, entry: Mapping[str, Any], number: int) -> _Test | None:
    """Of the other forms, where numbers of CSV and SQL stand as text."""
    fields = Fields(content, {key: _number(value) for key, value in entry.items()}, f"test {number} ")
    rate = fields.number("avg_ts")
    nanoseconds = fields.number("avg_ns", scale=NS)
    prompt, generated = fields.number("n_prompt") or 0.0, fields.number("n_gen") or 0.0
    if rate is None and nanoseconds is not None:
        rate = (prompt + generated) / nanoseconds
    if rate is None or not prompt + generated:
        return None
    return _Test(
        prompt, generated, fields.number("n_depth") or 0.0, rate, fields.number("stddev_ts"), fields.number("n_batch")
    )


def _number(value: Any) -> Any:
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value
    return value


def _row(test: _Test) -> Row:
    name = "+".join(
        [*([f"pp{test.prompt:.0f}"] if test.prompt else []), *([f"tg{test.generated:.0f}"] if test.generated else [])]
    )
    label = f"{name} @ d{test.depth:.0f}" if test.depth else name
    if test.prompt and test.generated:
        why = f"{name} times prefill and decode in one: run -p and -n apart"
        mixed: tuple[Figure, ...] = refused(label, test.rate, "token/s", "prompt and generated tokens over both", MIXED)
        return Row(label=label, figures=mixed, missing={"prefill": why, "decode": why})
    if test.prompt:
        time = from_rate(test.rate, test.prompt, f"{test.prompt:.0f} tokens at {label}", test.spread)
        notes = ""
        if test.batch and test.batch < test.prompt:
            notes = f"done in batches of {test.batch:.0f} tokens: each reads the weights again"
        return Row(
            label=label,
            prompt_tokens=test.prompt + test.depth,
            figures=figure(
                label, test.rate, "token/s", "prefill rate", "prompt tokens / time, in process, no sampling", _UNCACHED
            ),
            prefill=prefill(test.prompt, time, cached=test.depth, notes=notes),
            missing={"decode": "a pp test decodes nothing"},
        )
    step = from_rate(test.rate, 1.0, f"a token at {label}", test.spread)
    return Row(
        label=label,
        answer_tokens=test.generated,
        figures=figure(label, test.rate, "token/s", "decode rate", "steps / time, no prompt in it", "1 / rate: a step"),
        tpot=step,
        decode=decode(test.depth + (test.generated - 1) / 2, step),
        missing={"prefill": "a tg test has no prompt"},
    )
