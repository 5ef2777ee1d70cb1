"""Public reports of wrong TTFT, TPOT and counts: each planted in the simulated server, each named by the right check.

The ids are those of the shared table of reports. A row says what is planted, where it must be named and in which words;
the same server without the fault must not raise it.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from phasewise.engines.openai import connect
from phasewise.engines.simulated import SimulatedServer
from phasewise.engines.simulated.plan import OtherLoad, Plan
from phasewise.engines.simulated.presets import PRESETS
from phasewise.fix.fix import fix
from phasewise.hardware import catalogue
from phasewise.isolate.run import isolate
from phasewise.judge.case import Ask, Case
from phasewise.judge.judge import judge
from phasewise.model.load import load
from phasewise.predict.roofline import roofs
from phasewise.record.observation import Observation, Phase

REPORTS = Path(__file__).parents[3] / "shared" / "data" / "reports.csv"
AREAS = ("3 TTFT", "4 TPOT", "9 Request control and counting")

BASE = Plan(
    prefill_overhead_s=1e-3,
    prefill_per_token_s=10e-6,
    decode_overhead_s=1e-3,
    decode_per_request_s=0.0,
    decode_per_context_token_s=5e-8,
)
H100 = PRESETS["h100-llama-3-8b"].plan
EAGER = PRESETS["h100-llama-3-8b-eager"].plan


@dataclass(frozen=True)
class Setup:
    """How a server is profiled, and judged when ``judged``."""

    budget: float
    phases: tuple[Phase, ...] = ("prefill", "decode")
    lengths: tuple[int, ...] | None = None
    max_prompt: int | None = None
    base: Plan = BASE
    judged: bool = False
    prompt: int = 2000


LENGTHS = Setup(0.8, ("prefill",), max_prompt=2048)
BOTH = Setup(1.3, max_prompt=512)
BESIDE = Setup(2.5, ("prefill",), lengths=(32, 256))
BURSTS = Setup(1.8, ("decode",), max_prompt=64)
SLOW_BESIDE = Setup(14.0, ("prefill",), lengths=(32, 256))
LONG_DECODE = Setup(2.0, ("decode",), max_prompt=512)
QUICK = msgspec.structs.replace(BASE, decode_overhead_s=0.3e-3)
OPTIONS = Setup(2.5, ("decode",), max_prompt=64, base=QUICK)
JUDGED = Setup(2.5, max_prompt=2048, base=H100, judged=True)
JUDGED_PREFILL = Setup(1.5, ("prefill",), lengths=(64, 512, 2048), base=H100, judged=True)


class Said(NamedTuple):
    """Something the run says: where (``check NAME PHASE STATUS``, ``note PHASE``, ...), and its words."""

    where: str
    words: str


@dataclass(frozen=True)
class Row:
    """A report: what is planted, where it is named, and a pattern of the words."""

    id: str
    where: str
    words: str
    setup: Setup
    planted: dict[str, Any] = field(default_factory=dict)
    clean: dict[str, Any] = field(default_factory=dict)
    clean_setup: Setup | None = None


BUSY = OtherLoad(rate=60, prompt=1000, answer=10)
WAITING = OtherLoad(rate=15, prompt=50, answer=50)
PROMPTS = OtherLoad(rate=15, prompt=2000, answer=1)
LONG_PROMPTS = OtherLoad(rate=4, prompt=7000, answer=1)
DRAFTS = {"tokens_per_chunk": 4}

ROWS = (
    # TTFT: warm-up, idle
    Row("P026", "check warm prefill passed", r"took up to ([2-9]|\d\d+)\.\d+ times", BESIDE, {"warmup_cost_s": 0.05}),
    Row(
        "P028", "check warm prefill failed", "still over 20% slower", BESIDE, {"warmup_cost_s": 0.02, "warmup_steps": 4}
    ),
    Row(
        "P029", "check idle prefill failed", "after a pause of .* later", BESIDE,
        {"idle_penalty_s": 0.02, "idle_after_s": 0.03},
    ),
    # TTFT: queueing and load
    Row("P031", "note prefill", r"prefilled in turn: the last one's TTFT", BESIDE, {"chunk_tokens": 48}),
    Row("P032", "note prefill", r"4 short requests sent together 1 ran at once", BESIDE, {"max_batch": 1}),
    Row("P034", "note prefill", r"8 short requests sent together 4 ran at once", BESIDE, {"max_batch": 4}),
    Row("P035", "note prefill", r"its place in a queue of prefills", BESIDE, {"chunk_tokens": 40}),
    Row(
        "P037", "check alone run failed", "another client", LENGTHS, {"other_load": BUSY, "metrics": False},
        {"metrics": False},
    ),
    Row(
        "P038", "check queue prefill failed", r"waited .* in the server's queue, \d\d+% of TTFT", LENGTHS,
        {"other_load": WAITING, "max_batch": 1, "timings": "vllm"}, {"timings": "vllm"},
    ),
    # TTFT: chunked prefill and long prompts
    Row(
        "P040", "check uncached prefill failed", "no more than at 256: of longer prompts only a part", LENGTHS,
        {"computed_tokens": 256},
    ),
    Row(
        "P041", "check steady decode failed", "steps that others' prompts share", BOTH,
        {"other_load": PROMPTS, "chunk_tokens": 2048}, {"chunk_tokens": 2048},
    ),
    Row(
        "P043", "note prefill", "as fast as this machine gets", JUDGED_PREFILL,
        {"prefill_overhead_s": 2e-4, "prefill_per_token_s": 14.9e-6},
    ),
    Row(
        "P044", "note prefill", "below the ridge .* waits for the weights",
        Setup(1.0, ("prefill",), lengths=(16, 512), base=H100, judged=True, prompt=16),
        clean_setup=JUDGED_PREFILL,
    ),
    # TTFT: transport and streaming
    Row("P046", "check streamed decode failed", "collects the stream", BOTH, {"buffer": 16384}),
    Row("P047", "check streamed decode failed", "collects the stream; .*proxy_buffering off", BOTH, {"buffer": 4096}),
    Row(
        "P049", "check connection prefill failed", "later on a kept connection .* delayed ACK", SLOW_BESIDE,
        {"ack_delay_s": 0.025},
    ),
    Row(
        "P050", "note decode", "reach 8 clients over .* written one after the other",
        Setup(4.0, ("decode",), base=msgspec.structs.replace(BASE, decode_overhead_s=3e-3), max_prompt=64),
        {"write_s": 0.3e-3},
    ),
    # TTFT: reasoning
    Row(
        "P052", "check reasoning decode passed", "24 chunks .* were reasoning.*TTFT is to the first of any kind", BOTH,
        {"endpoints": "chat", "reasoning": 24, "role_chunk": True}, {"endpoints": "chat", "role_chunk": True},
    ),
    Row(
        "P053", "check reasoning decode failed", "leaves them out", BOTH,
        {"endpoints": "chat", "reasoning": 24, "count": "answer"}, {"endpoints": "chat", "reasoning": 24},
    ),
    # TTFT: prefix cache
    Row(
        "P055", "check prefix_cache prefill passed", r"the prefix cache works, \d+ tokens cached", BESIDE,
        {"prefix_cache": True},
    ),
    Row(
        "P056", "check prefix_cache prefill passed", "off or never hits", BESIDE, DRAFTS,
        {"prefix_cache": True, **DRAFTS},
    ),
    Row(
        "P058", "check prefix_cache prefill failed", "a rate made of it is undefined", BESIDE,
        {"prefix_cache": True, "prompt_count": "uncached"}, {"prefix_cache": True},
    ),
    Row(
        "P059", "check reported prefill failed", "covers a part of the prompt only", LENGTHS,
        {"timings": "llama.cpp", "timed_tokens": 64}, {"timings": "llama.cpp"},
    ),
    # TPOT: counting
    Row(
        "P061", "check chunks_per_token decode failed", r"a gap between chunks is not the time of a token", BOTH,
        {"tokens_per_chunk": 3},
    ),
    Row(
        "P062", "check tokens_by_usage decode failed", "it counts its chunks", BOTH,
        {"tokens_per_chunk": 5, "count": "chunks"}, {"tokens_per_chunk": 5},
    ),
    Row(
        "P064", "check tokens_by_usage decode failed", "it counts something else", BOTH,
        {"text": "spaces", "count": "retokenised"}, {"text": "spaces"},
    ),
    Row(
        "P065", "check tokens_by_usage decode failed", "it counts something else .words", BOTH,
        {"text": "pieces", "count": "words"}, {"text": "pieces"},
    ),
    Row("P067", "check ended_by_length decode failed", "1 token of", BOTH, {"early_end": 1}),
    Row(
        "P068", "check chunks_per_token decode failed", r"from \d.\d+ to \d.\d+ between answers", BOTH,
        {"tokens_per_chunk": 8, "acceptance": 0.7}, {"tokens_per_chunk": 8},
    ),
    # TPOT: host, launches, graphs
    Row("P070", "bound decode", "overhead", JUDGED, {"decode_overhead_s": 12.3e-3, "prefill_overhead_s": 15e-3}),
    Row("P071", "verdict", "bound by overhead .*host, scheduler", JUDGED,
        {"decode_overhead_s": 12.3e-3, "prefill_overhead_s": 15e-3}),
    Row("P073", "note decode", "logprobs adds .* per token.* on the host", OPTIONS, {"logprobs_s": 0.2e-3}),
    Row(
        "P074", "note decode", "the step jumps beyond 4 requests", BURSTS,
        {"graph_batch": 4, "eager_step_s": 8e-3},
    ),
    Row("P076", "fix", "cuda graphs", JUDGED, {"decode_overhead_s": 12.3e-3, "prefill_overhead_s": 15e-3}),
    Row("P077", "verdict", "overhead .launches", JUDGED, {"decode_overhead_s": 12.3e-3, "prefill_overhead_s": 15e-3}),
    # TPOT: sampling and constraints
    Row("P079", "note decode", "top_p sampling adds .* per token", OPTIONS, {"sampling_s": 0.06e-3}),
    Row("P080", "note decode", r"top_p sampling adds .*, \d{3}% of a greedy step", OPTIONS, {"sampling_s": 0.5e-3}),
    Row("P082", "note decode", "a JSON grammar adds .* per request", OPTIONS, {"guided_s": 0.4e-3}),
    # TPOT: context, KV, batch
    Row("P083", "note prefill", r"8 short requests sent together [4-6] ran at once", BESIDE, {"kv_tokens": 200}),
    Row(
        "P085", "note decode", "per 1,000 tokens of context, [34].. times what reading their KV cache takes", JUDGED,
        {"decode_per_context_token_s": 160e-9},
    ),
    Row(
        "P086", "check chunks_per_token decode failed", "fewer drafts are accepted at long contexts", LONG_DECODE,
        {"tokens_per_chunk": 4, "draft_context": 700}, DRAFTS,
    ),
    Row("P088", "note decode", "each request adds to the step", BURSTS, {"decode_per_request_s": 1e-3}),
    # TPOT: interference
    Row(
        "P089", "check steady decode failed", r"took [6-9]\d\.\d ms where 1.\d+ ms is typical", BOTH,
        {"other_load": LONG_PROMPTS, "chunk_tokens": 8192}, {"chunk_tokens": 8192},
    ),
    # TPOT: speculative decoding
    Row(
        "P091", "note decode", "verifying drafts takes the compute", BURSTS,
        {"decode_per_request_s": 5e-4, **DRAFTS}, DRAFTS,
    ),
    Row(
        "P092", "note decode", "drafts are switched off .*the step jumps beyond 4", BURSTS,
        {"draft_batch": 4, "graph_batch": 4, "eager_step_s": 2e-3, **DRAFTS}, DRAFTS,
    ),
    # Request control and counting
    Row("P143", "check ended_by_length decode failed", "ended early .'stop'.: 20 tokens of", BOTH, {"early_end": 20}),
    Row(
        "P145", "check ended_by_length decode failed", "ended early .'stop'.: 24 tokens of", BOTH,
        {"endpoints": "chat", "chat_stops": True, "answer_tokens": 24}, {"endpoints": "chat", "answer_tokens": 24},
    ),
    Row("P146", "check padding decode failed", "padding after the answer's end", BOTH, {"padding_after": 20}),
    Row(
        "P148", "note decode", "at once made .* a figure at batch 1 is not the server's throughput", BURSTS,
        clean={"decode_per_request_s": 1e-3},
    ),
    Row("P149", "check tokens_by_usage decode failed", "gave no token count", BOTH, {"usage": False}),
    # Disaggregated serving: one prefill worker is the same queue
    Row("P151", "note prefill", "place in a queue of prefills", BESIDE, {"chunk_tokens": 32}),
)  # fmt: skip


def said(setup: Setup, planted: dict[str, Any]) -> tuple[Said, ...]:
    """Everything that profiling the planted server says; runs of the same plan are made once."""
    return _said(setup, msgspec.structs.replace(setup.base, **planted))


@cache
def _said(setup: Setup, plan: Plan) -> tuple[Said, ...]:
    with SimulatedServer(plan) as server:
        engine = connect(server.url)
        try:
            seen = isolate(
                engine,
                phases=setup.phases,
                budget_s=setup.budget,
                lengths=setup.lengths,
                max_prompt=setup.max_prompt,
            )
        finally:
            engine.close()
    return tuple(_checks(seen) + _judged(setup, seen))


def _checks(seen: Observation) -> list[Said]:
    return [Said(f"check {check.name} {check.phase} {check.status}", check.detail) for check in seen.checks]


def _judged(setup: Setup, seen: Observation) -> list[Said]:
    model, machine = (
        (load("llama-3-8b"), catalogue.machine(catalogue.find("h100-sxm"))) if setup.judged else (None, None)
    )
    case = Case(
        observation=seen,
        asks=(Ask(prompt=setup.prompt),),
        model=model,
        roofs=roofs(model, machine) if model and machine else (),
    )
    verdict = judge(case)
    found = [Said("verdict", verdict.verdict.text)]
    for phase in (verdict.prefill, verdict.decode):
        if phase is not None:
            found += [Said(f"note {phase.phase}", note) for note in phase.notes]
            found.append(Said(f"bound {phase.phase}", phase.bound))
    return found + [Said("fix", remedy.name) for remedy in fix(case, verdict, machine).fixes]


def named(row: Row, words: tuple[Said, ...]) -> bool:
    return any(one.where == row.where and re.search(row.words, one.words) for one in words)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_a_reported_fault_is_named(row: Row) -> None:
    found = said(row.setup, row.planted)
    assert named(row, found), "\n".join(f"{one.where}: {one.words}" for one in found)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_without_the_fault_it_is_not_named(row: Row) -> None:
    found = said(row.clean_setup or row.setup, row.clean)
    assert not named(row, found), [one for one in found if one.where == row.where]


def test_every_report_of_these_areas_is_planted() -> None:
    if not REPORTS.exists():
        pytest.skip("skipped: no shared data")
    with REPORTS.open(encoding="utf-8", newline="") as file:
        reported = {row["id"] for row in csv.DictReader(file) if row["area"].startswith(AREAS)}
    assert len(reported) >= 40
    assert reported - {row.id for row in ROWS} == set()
