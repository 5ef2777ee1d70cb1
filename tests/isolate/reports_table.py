"""The public reports of wrong TTFT, TPOT and counts: what each plants, where it must be named, and in which words."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from phasewise.engines.simulated.plan import OtherLoad, Plan
from phasewise.engines.simulated.presets import PRESETS
from phasewise.record.observation import Phase

BASE = Plan(
    prefill_overhead_s=1e-3,
    prefill_per_token_s=10e-6,
    decode_overhead_s=1e-3,
    decode_per_request_s=0.0,
    decode_per_context_token_s=5e-8,
)
FASTER = 4.0
"""The reference machine is made faster by this, so that its profiles take less time."""


def faster(plan: Plan) -> Plan:
    """``plan`` on the faster machine."""
    names = [name for name in plan.__struct_fields__ if name.startswith(("prefill_", "decode_"))]
    return msgspec.structs.replace(plan, **{name: getattr(plan, name) / FASTER for name in names})


H100 = faster(PRESETS["h100-llama-3-8b"].plan)
_EAGER = faster(PRESETS["h100-llama-3-8b-eager"].plan)
EAGER = {name: getattr(_EAGER, name) for name in ("prefill_overhead_s", "decode_overhead_s")}


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
BESIDE = Setup(6.0, ("prefill",), lengths=(32, 256))
QUICK = msgspec.structs.replace(BASE, decode_overhead_s=0.5e-3)
BURSTS = Setup(3.0, ("decode",), max_prompt=64, base=QUICK)
SLOW_BESIDE = Setup(20.0, ("prefill",), lengths=(32,))
STREAMS = Setup(2.0, ("decode",), max_prompt=64)
LONG_DECODE = Setup(2.0, ("decode",), max_prompt=512)
OPTIONS = Setup(3.2, ("decode",), max_prompt=64, base=QUICK)
JUDGED = Setup(3.2, max_prompt=6000, base=H100, judged=True)
JUDGED_PREFILL = Setup(1.0, ("prefill",), lengths=(64, 512, 2048), base=H100, judged=True)


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
PROMPTS = OtherLoad(rate=20, prompt=1500, answer=1)
LONG_PROMPTS = OtherLoad(rate=12, prompt=4000, answer=1)
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
    Row(
        "P031", "note prefill", r"prefilled in turn: the last one's TTFT", BESIDE,
        {"chunk_tokens": 36, "prefill_overhead_s": 2e-3},
    ),
    Row("P032", "note prefill", r"[48] short requests sent together 1 ran at once", BESIDE, {"max_batch": 1}),
    Row("P034", "note prefill", r"8 short requests sent together 4 ran at once", BESIDE, {"max_batch": 4}),
    Row(
        "P035", "note prefill", r"its place in a queue of prefills", BESIDE,
        {"chunk_tokens": 40, "prefill_overhead_s": 2e-3},
    ),
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
        "P041", "check steady decode failed", "steps that others' prompts share", STREAMS,
        {"other_load": PROMPTS, "chunk_tokens": 2048}, {"chunk_tokens": 2048},
    ),
    Row(
        "P043", "note prefill", "as fast as this machine gets", JUDGED_PREFILL,
        {"prefill_overhead_s": 1e-4, "prefill_per_token_s": 14.9e-6 / FASTER},
    ),
    Row(
        "P044", "note prefill", "below the ridge .* waits for the weights",
        Setup(1.0, ("prefill",), lengths=(16, 512), base=H100, judged=True, prompt=16),
        clean_setup=JUDGED_PREFILL,
    ),
    # TTFT: transport and streaming
    Row("P046", "check streamed decode failed", "buffering off in every proxy", BOTH, {"buffer": 16384}),
    Row("P047", "check streamed decode failed", "collects the stream; .*proxy_buffering off", BOTH, {"buffer": 4096}),
    Row(
        "P049", "check connection prefill failed", "later on a kept connection .* delayed ACK", SLOW_BESIDE,
        {"ack_delay_s": 0.025},
    ),
    Row(
        "P050", "note decode", "reach 8 clients over .* written one after the other",
        Setup(3.5, ("decode",), base=msgspec.structs.replace(BASE, decode_overhead_s=2e-3), max_prompt=64),
        {"write_s": 0.2e-3},
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
        "P059", "check timings_agree prefill failed", "only a part of the prompt", LENGTHS,
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
    Row("P070", "bound decode", "overhead", JUDGED, EAGER),
    Row("P071", "bound decode", "overhead", JUDGED, EAGER),
    Row("P073", "note decode", "logprobs adds .* per token.* on the host", OPTIONS, {"logprobs_s": 0.3e-3}),
    Row(
        "P074", "note decode", "the step jumps beyond 4 requests", BURSTS,
        {"graph_batch": 4, "eager_step_s": 8e-3},
    ),
    Row("P076", "fix", r"CUDA graphs, [2-9]\d%", JUDGED, EAGER),
    Row("P077", "bound decode", "overhead", JUDGED, EAGER),
    # TPOT: sampling and constraints
    Row("P079", "note decode", "top_p sampling adds .* per token", OPTIONS, {"sampling_s": 0.15e-3}),
    Row("P080", "note decode", r"top_p sampling adds .*, \d{3}% of a greedy step", OPTIONS, {"sampling_s": 0.7e-3}),
    Row("P082", "note decode", "a JSON grammar adds .* per request", OPTIONS, {"guided_s": 0.4e-3}),
    # TPOT: context, KV, batch
    Row("P083", "note prefill", r"8 short requests sent together [4-6] ran at once", BESIDE, {"kv_tokens": 200}),
    Row(
        "P085", "note decode", "per 1,000 tokens of context, [34].. times what reading their KV cache takes", JUDGED,
        {"decode_per_context_token_s": 160e-9 / FASTER},
    ),
    Row(
        "P086", "check chunks_per_token decode failed", "fewer drafts are accepted at long contexts", LONG_DECODE,
        {"tokens_per_chunk": 4, "draft_context": 700}, DRAFTS,
    ),
    Row("P088", "note decode", "each request adds to the step", BURSTS, {"decode_per_request_s": 4e-4}),
    # TPOT: interference
    Row(
        "P089", "check steady decode failed", r"took [4-9]\d\.\d ms where 1.\d+ ms is typical", STREAMS,
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
    Row("P143", "check ended_by_length decode failed", "ended early .'stop'.: 12 tokens of", BOTH, {"early_end": 12}),
    Row(
        "P145", "check ended_by_length decode failed", "ended early .'stop'.: 10 tokens of", BOTH,
        {"endpoints": "chat", "chat_stops": True, "answer_tokens": 10}, {"endpoints": "chat", "answer_tokens": 10},
    ),
    Row("P146", "check padding decode failed", "padding after the end of the answer", BOTH, {"padding_after": 20}),
    Row(
        "P148", "note decode", "at once made .* a figure at batch 1 is not the server's throughput", BURSTS,
        clean={"decode_per_request_s": 4e-4},
    ),
    Row("P149", "check tokens_by_usage decode failed", "gave no token count", BOTH, {"usage": False}),
    # Disaggregated serving: one prefill worker is the same queue
    Row("P151", "note prefill", "place in a queue of prefills", BESIDE, {"chunk_tokens": 32}),
)  # fmt: skip
