"""Our own recordings (tests/fixtures/traces), step by step, against what json, gzip, sqlite3 and a regex find in them.

The oracle shares no code with the product. What was sent is in record_torch.py and record_vllm.py.
"""

from __future__ import annotations

import gzip
import json
import re
import sqlite3
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from phasewise.observe.traces import cpu, steps
from phasewise.observe.traces.events import Trace
from phasewise.observe.traces.families import rules
from phasewise.observe.traces.opening import read_all
from phasewise.observe.traces.section import section
from phasewise.observe.traces.split import Split
from phasewise.record.trace import Tokens, Traced

FIXTURES = Path(__file__).parents[1] / "fixtures" / "traces"

BAND = re.compile(
    r"execute_(\d+)_context_(\d+)\(sq(\d+)sk(\d+)sqsq(\d+)sqsk(\d+)\)_generation_(\d+)\(sq(\d+)sk(\d+)sqsq(\d+)sqsk(\d+)\)$"
)


class Ours(NamedTuple):
    trace: Trace
    split: Split
    traced: Traced


@cache
def ours(name: str) -> Ours:
    trace = cpu.on_cpu(read_all([FIXTURES / name]))
    found = steps.split(trace)
    return Ours(trace, found, section(trace, found, rules()))


@cache
def events(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(gzip.decompress((FIXTURES / name).read_bytes()))["traceEvents"]
    return found


def bands(name: str) -> list[dict[str, Any]]:
    """The annotations, in order of time."""
    return sorted((one for one in events(name) if one.get("cat") == "user_annotation"), key=lambda one: one["ts"])


def inside(name: str, band: dict[str, Any], operator: str) -> int:
    """Operators of that name that began in the band, on its thread."""
    return sum(
        one.get("name") == operator and one["tid"] == band["tid"] and band["ts"] <= one["ts"] < band["ts"] + band["dur"]
        for one in events(name)
        if one.get("cat") == "cpu_op"
    )


def attributed(name: str, operator: str) -> list[int]:
    """How many kernels of that name each of our steps has."""
    found = ours(name)
    rows = [
        step
        for step, kernel in zip(found.split.kernel.tolist(), found.trace.kernels.name.tolist(), strict=True)
        if step >= 0 and found.trace.names[kernel] == operator
    ]
    counted = Counter(rows)
    return [counted[number] for number in range(len(found.split.steps))]


def tokens(requests: str, *sums: str) -> Tokens | None:
    """One half of a step; None where it holds no request."""
    names = ("tokens", "context", "squares", "products")
    return Tokens(requests=int(requests), **dict(zip(names, map(int, sums), strict=True))) if int(requests) else None


def test_the_torch_recording_is_one_prefill_and_six_decodes() -> None:
    marked = bands("torch_cpu.json.gz")
    assert [one["name"] for one in marked] == ["prefill", *["decode"] * 6]
    found = ours("torch_cpu.json.gz").traced
    assert [step.phase for step in found.steps] == [one["name"] for one in marked]
    assert [step.label for step in found.steps] == [one["name"] for one in marked]
    assert [step.host_s for step in found.steps] == pytest.approx([one["dur"] / 1e6 for one in marked], abs=1e-9)
    assert [(found.phases[name].steps) for name in ("prefill", "decode", "mixed", "unknown")] == [1, 6, 0, 0]
    assert found.on_cpu


@pytest.mark.parametrize(
    ("name", "operator"),
    [
        ("torch_cpu.json.gz", "aten::mm"),
        ("vllm_cpu.json.gz", "_C::cpu_attention_with_kv_cache"),
        ("vllm_cpu.json.gz", "_C::rotary_embedding"),
    ],
)
def test_operators_are_those_of_the_band_that_they_began_in(name: str, operator: str) -> None:
    counted = [count for one in bands(name) if (count := inside(name, one, operator))]
    assert len(counted) > 5
    assert attributed(name, operator) == counted


def test_the_vllm_recording_is_what_was_sent() -> None:
    """96 tokens for 1; 8 for 6; 16 for 30, and 600 for 3 in chunks of what is left of 256 tokens beside a decode."""
    prompts = [("prefill", 96, 96)]
    prompts += [("prefill", 8, 8), *(("decode", 1, 9 + n) for n in range(5))]
    prompts += [("prefill", 16, 16), *(("decode", 1, 17 + n) for n in range(26))]
    mixed = [(255, 255, 43), (255, 510, 44), (90, 600, 45)]
    last = [("decode", 1, 601), ("decode", 1, 602)]
    found = ours("vllm_cpu.json.gz").traced.steps

    def half(step: Any) -> tuple[str, int, int]:
        one = step.prefill or step.decode
        assert step.requests == 1
        return step.phase, one.tokens, one.context

    assert [half(step) for step in found[: len(prompts)]] == prompts
    chunks = found[len(prompts) : len(prompts) + 3]
    assert {(step.phase, step.requests) for step in chunks} == {("mixed", 2)}
    assert [(step.prefill.tokens, step.prefill.context, step.decode.context) for step in chunks] == mixed  # type: ignore[union-attr]
    assert [half(step) for step in found[len(prompts) + 3 :]] == last


def test_every_step_of_vllm_has_the_counts_of_its_band() -> None:
    """Requests, Σq, Σk, Σq² and Σq·k of both halves, and the band's own sum of tokens."""
    working = []
    for band in bands("vllm_cpu.json.gz"):
        told = BAND.match(band["name"])
        assert told is not None, band["name"]
        total, *halves = told.groups()
        if int(total):
            working.append((band, int(total), tokens(*halves[:5]), tokens(*halves[5:])))
    found = ours("vllm_cpu.json.gz").traced
    assert len(working) == len(found.steps)
    for step, (band, total, prefill, decode) in zip(found.steps, working, strict=True):
        assert (step.label, step.prefill, step.decode) == (band["name"], prefill, decode)
        assert step.tokens == total
        assert step.phase == named(prefill, decode)
        assert step.host_s == pytest.approx(band["dur"] / 1e6, abs=1e-9)
        assert not step.speculative
    for phase in ("prefill", "decode", "mixed"):
        asked = [total for _, total, prefill, decode in working if phase == named(prefill, decode)]
        assert (found.phases[phase].steps, found.phases[phase].tokens) == (len(asked), sum(asked))
    assert found.phases["unknown"].steps == 0


def named(prefill: Tokens | None, decode: Tokens | None) -> str:
    return "mixed" if prefill and decode else "prefill" if prefill else "decode"


def test_bands_in_which_the_engine_idled_are_no_steps() -> None:
    idle = [one for one in bands("vllm_cpu.json.gz") if one["name"].startswith("execute_0_")]
    assert len(idle) == 3
    found = ours("vllm_cpu.json.gz")
    assert not [step for step in found.traced.steps if step.label.startswith("execute_0_")]
    assert len(found.traced.steps) == len(bands("vllm_cpu.json.gz")) - len(idle)


def test_the_nsys_recording_has_the_marks_and_no_device() -> None:
    with sqlite3.connect(f"file:{FIXTURES / 'nsys_cpu_nvtx.sqlite'}?mode=ro&immutable=1", uri=True) as base:
        rows = base.execute(
            "SELECT value, start, end FROM NVTX_EVENTS JOIN StringIds ON id = textId"
            " WHERE eventType = 59 AND end IS NOT NULL ORDER BY start"
        ).fetchall()
    assert [name for name, _, _ in rows] == ["prefill", *["decode"] * 6]
    found = ours("nsys_cpu_nvtx.sqlite").traced
    assert [step.phase for step in found.steps] == [name for name, _, _ in rows]
    assert [step.host_s for step in found.steps] == pytest.approx(
        [(end - start) / 1e9 for _, start, end in rows], abs=1e-9
    )
    between = [step.start_s - found.steps[0].start_s for step in found.steps]
    assert between == pytest.approx([(start - rows[0][1]) / 1e9 for _, start, _ in rows], abs=1e-9)
    assert found.kernels_total == 0
    assert found.span_s is None


def test_the_three_say_where_they_are_from() -> None:
    forms = {
        name: ours(name).traced.files[0] for name in ("torch_cpu.json.gz", "vllm_cpu.json.gz", "nsys_cpu_nvtx.sqlite")
    }
    assert "vllm" in forms["vllm_cpu.json.gz"].engine.lower()
    assert (
        "nsys" in forms["nsys_cpu_nvtx.sqlite"].form.lower() or "nsight" in forms["nsys_cpu_nvtx.sqlite"].form.lower()
    )
    assert {one.devices for one in forms.values()} == {()}
