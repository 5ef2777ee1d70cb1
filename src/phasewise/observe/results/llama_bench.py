"""llama-bench in any of its forms: JSON, JSON lines, CSV, Markdown, SQL (llama.cpp tools/llama-bench).

A test is prompt processing (ppN: N tokens in batches of n_batch, in process, no sampling), text generation (tgN: N
steps of one token) or both in one (ppN+tgM, which tells neither), after ``n_depth`` tokens of context. t/s counts the
test's own tokens only, so that tg holds no prompt. ± is the standard deviation of its repeats.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from phasewise.observe.results import table
from phasewise.observe.results.content import Content, Fields
from phasewise.observe.results.figures import MIXED, NS, decode, figure, from_rate, prefill, refused
from phasewise.record.results import Figure, Reported, Row

FORM = "llama-bench JSON, JSON lines, CSV, Markdown or SQL"

_TEST = re.compile(r"^(?:pp ?(\d+))?\+?(?:tg ?(\d+))?(?: *@ *d(\d+))?$")
_RATE = re.compile(r"^(\d+(?:\.\d+)?)(?:\s*(?:±|\+/-)\s*(\d+(?:\.\d+)?))?$")
_SIZE = re.compile(r"^(\d+(?:\.\d+)?) (MiB|GiB)$")

_DEVICE = re.compile(r"^\s*Device \d+: (.{1,80}?), (?:compute capability|gfx)", re.MULTILINE)
"""What CUDA and ROCm builds print before the table."""

_ALL_LAYERS = 99
"""``n_gpu_layers`` from which on, and -1, it means all of them."""

_MICRO_BATCH = 512.0
"""llama.cpp's own ``n_ubatch``, which tables leave out when it is that."""

_VARIED = {
    **dict.fromkeys(("n_gpu_layers", "ngl"), "ngl"),
    **dict.fromkeys(("n_threads", "threads"), "threads"),
    **dict.fromkeys(("flash_attn", "fa"), "fa"),
    **dict.fromkeys(("split_mode", "sm"), "sm"),
    **dict.fromkeys(("devices", "dev"), "dev"),
    **dict.fromkeys(("backends", "backend"), "backend"),
    **{name: name for name in ("n_cpu_moe", "n_batch", "n_ubatch", "type_k", "type_v")},
}
"""Settings that a run can try several values of, and what its table calls them."""

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
    """A row per test.

    Raises:
        InputError: no test, or tests of several models.
    """
    entries: list[Mapping[str, Any]] = list(content.objects) or list(_rows(content))
    model = content.sole(_model(entry) for entry in entries)
    varied = [key for key in _VARIED if len({str(entry.get(key)) for entry in entries}) > 1]
    rows = []
    for number, entry in enumerate(entries, 1):
        test = _named(content, entry) if "test" in entry else _counted(content, entry, number)
        if test:
            apart = [f"{_VARIED[key]} {str(entry.get(key))[:20]}" for key in varied]
            rows.append(_ran(_row(test), entry, apart, _devices(entry, _gpus(content, entry))))
    if not rows:
        content.wrong("has no test with a rate: let llama-bench finish one")
    first = entries[0]
    gpus = _gpus(content, first)
    on_cpu = all(row.gpu_layers == 0 for row in rows)
    kv = {str(entry.get(key) or "f16") for entry in entries for key in ("type_k", "type_v")}
    return Reported(
        tool="llama-bench",
        form=_form(content),
        model=model,
        accelerators=() if on_cpu else tuple(dict.fromkeys(gpus)),
        devices=_devices(first, gpus) if gpus and not on_cpu else None,
        weight_bytes=_weight_bytes(first),
        kv=kv.pop() if len(kv) == 1 and "f16" not in kv else "",
        rows=tuple(rows),
    )


def _model(entry: Mapping[str, Any]) -> str:
    return str(entry.get("model_filename") or entry.get("model") or "")


def _gpus(content: Content, entry: Mapping[str, Any]) -> list[str]:
    told = str(entry.get("gpu_info") or "").split(",") or []
    return [name.strip() for name in told if name.strip()] or _DEVICE.findall(content.text)


def _devices(entry: Mapping[str, Any], gpus: list[str]) -> int:
    """How many of the GPUs that it lists it used: all, one without a split, or those that were named."""
    if _said(entry, "split_mode", "sm") == "none":
        return 1
    chosen = _said(entry, "devices", "dev")
    return len(gpus) if chosen in ("", "auto") else len(chosen.split("/"))


def _said(entry: Mapping[str, Any], *keys: str) -> str:
    return next((str(entry[key]).strip() for key in keys if entry.get(key) is not None), "")


def _ran(row: Row, entry: Mapping[str, Any], varied: list[str], devices: int) -> Row:
    """``row`` with where it ran, and with what tells it from others of its size."""
    layers, notes = _layers(entry)
    if layers != 0 and devices > 1 and _said(entry, "split_mode", "sm") in ("", "layer"):
        batch, micro = (_number(_said(entry, name)) for name in ("n_batch", "n_ubatch"))
        size = micro if isinstance(micro, float) else _MICRO_BATCH
        row = _in_turns(row, devices, min(size, batch) if isinstance(batch, float) else size)
    return msgspec.structs.replace(
        row, label=", ".join([row.label, *varied]), gpu_layers=layers, notes=(*row.notes, *notes)
    )


def _in_turns(row: Row, devices: int, size: float) -> Row:
    """``row`` of devices that hold some layers each (split_mode layer, llama.cpp's own choice), and hand on a batch.

    A step of one token is on one device at a time. Of a prompt, k micro-batches pass through n devices as through a
    pipeline, in k + n - 1 turns instead of k·n: as if k·n / (k + n - 1) of them worked at once.
    """
    turns = f"its {devices} devices work one after the other (split_mode layer)"
    prefill, decode = row.prefill, row.decode
    if prefill is not None:
        batches = max(1, math.ceil(prefill.tokens.value / max(1.0, size)))
        at_once = batches * devices / (batches + devices - 1)
        said = f"{turns}: {batches:,} micro-batch{'es' * (batches != 1)} of {size:,.0f} keep {at_once:.3g} of them busy"
        prefill = msgspec.structs.replace(prefill, at_once=at_once, notes=(*prefill.notes, said))
    if decode is not None:
        said = f"{turns}: a step is held against one of them"
        decode = msgspec.structs.replace(decode, at_once=1.0, notes=(*decode.notes, said))
    return msgspec.structs.replace(row, prefill=prefill, decode=decode)


def _layers(entry: Mapping[str, Any]) -> tuple[int | None, list[str]]:
    """Layers on the accelerator, None for all; and what lay elsewhere."""
    number = _number(_said(entry, "n_gpu_layers", "ngl"))
    backends = {name.strip().upper() for name in _said(entry, "backends", "backend").split(",")} - {""}
    if number == 0 or _said(entry, "devices", "dev") == "none" or (backends and backends <= {"CPU", "BLAS", "RPC"}):
        return 0, ["it ran on the CPU"]
    notes = []
    if (_number(_said(entry, "n_cpu_moe")) or 0) not in (0, ""):
        notes.append("experts of some layers were in the CPU's memory (n_cpu_moe)")
    if _said(entry, "tensor_buft_overrides", "ot") not in ("", "none"):
        notes.append("some weights were in the CPU's memory (tensor_buft_overrides)")
    if _said(entry, "no_kv_offload", "nkvo") in ("1", "True", "true"):
        notes.append("the KV cache was in the CPU's memory (no_kv_offload)")
    if notes:
        return 1, notes
    return (int(number), []) if isinstance(number, float) and 0 < number < _ALL_LAYERS else (None, [])


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
    sizes = [size for name in ("n_batch", "n_ubatch") if (size := fields.number(name))]
    return _Test(
        prompt,
        generated,
        fields.number("n_depth") or 0.0,
        rate,
        fields.number("stddev_ts"),
        min(sizes, default=None),
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
