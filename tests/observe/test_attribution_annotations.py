"""Names that mean a step, as their engines write them, and names that mean none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasewise.observe.traces.annotations import is_capture, parse
from phasewise.record.trace import Tokens

# (name, phase, prompts as (requests, tokens, context, squares, products), generations likewise)
NO = None
STEPS = [
    (
        "execute_8192_context_9(sq8155sk8430sqsq7475785sqsk7671310)_generation_37(sq37sk34489sqsq37sqsk34489)",
        "mixed",
        (9, 8155, 8430, 7475785, 7671310),
        (37, 37, 34489, 37, 34489),
    ),
    (
        "execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk55086sqsq32sqsk55086)",
        "decode",
        NO,
        (32, 32, 55086, 32, 55086),
    ),
    ("execute_context_1(888_788544)_generation_0(0)", "prefill", (1, 888, NO, 788544, NO), NO),
    ("execute_context_2(6144)_generation_3(3)", "mixed", (2, 6144, NO, NO, NO), (3, 3, NO, NO, NO)),
    ("execute_context_0(0)_generation_64(64)", "decode", NO, (64, 64, NO, NO, NO)),
    ("execute_new_3_cached_0", "prefill", (3, NO, NO, NO, NO), NO),
    ("execute_new_0_cached_4", "unknown", NO, NO),
    ("step[EXTEND bs=15 toks=15360]", "prefill", (15, 15360, NO, NO, NO), NO),
    ("step[EXTEND bs=2 toks=12 c_sq=12 c_sqsq=80 c_sqsk=120 c_sk=20]", "prefill", (2, 12, 20, 80, 120), NO),
    ("step[DECODE bs=32]", "decode", NO, (32, 32, NO, NO, NO)),
    ("step[DECODE bs=2 g_sq=2 g_sqsq=2 g_sqsk=30 g_sk=30]", "decode", NO, (2, 2, 30, 2, 30)),
    (
        "step[MIXED bs=2 c=1 g=1 c_sq=5 c_sk=8 c_sqsq=25 c_sqsk=40 g_sq=1 g_sk=12 g_sqsq=1 g_sqsk=12]",
        "mixed",
        (1, 5, 8, 25, 40),
        (1, 1, 12, 1, 12),
    ),
    (
        "step[MIXED bs=1 c=1 g=0 c_sq=3 c_sk=3 c_sqsq=9 c_sqsk=9 g_sq=0 g_sk=0 g_sqsq=0 g_sqsk=0]",
        "prefill",
        (1, 3, 3, 9, 9),
        NO,
    ),
    ("step[MIXED bs=2]", "mixed", NO, NO),
    ("prefill[bs=2 tok=14721 ctx=[7803, 6918]]", "prefill", (2, 14721, NO, NO, NO), NO),
    ("prefill[bs=6 tok=17408 ctx=[4096, 4096, 4096, 4096, 1024]...+1]", "prefill", (6, 17408, NO, NO, NO), NO),
    ("decode[bs=117/128 tok=117 d=117]", "decode", NO, (117, 117, NO, NO, NO)),
    ("[Executor] _forward_step 12: 1 ctx reqs, 3 gen reqs", "mixed", (1, NO, NO, NO, NO), (3, NO, NO, NO, NO)),
    ("[Executor] _forward_step: 2 ctx reqs, 0 gen reqs", "prefill", (2, NO, NO, NO, NO), NO),
    ("[Executor] _forward_step 6: 0 ctx reqs, 0 ctx tokens, 32 gen reqs", "decode", NO, (32, NO, NO, NO, NO)),
    ("prefill", "prefill", NO, NO),
    ("Decode", "decode", NO, NO),
    ("decode_12", "decode", NO, NO),
    ("decode step 3", "decode", NO, NO),
    ("prefill (2000 tokens)", "prefill", (NO, 2000, NO, NO, NO), NO),
    ("phasewise:prefill tokens=2000 requests=4", "prefill", (4, 2000, NO, NO, NO), NO),
    ("prompt", "prefill", NO, NO),
    ("context", "prefill", NO, NO),
    ("generate", "decode", NO, NO),
    ("mixed", "mixed", NO, NO),
    ("llama_decode", "unknown", NO, NO),
    ("ProfilerStep#7", "unknown", NO, NO),
]

NONE = [
    "decoder",
    "decode_text",
    "decode_latents",
    "decode/layer_3",
    "prefill_attention",
    "ContextManager",
    "generate_image",
    "gloo:all_reduce",
    "## Call CompiledFxGraph f4ii27 ##",
    "aten::mm, op_id = 314359",
    "capture_32_FULL",
    "request 0",
    "",
    "execute_context_",
    "x" * 10_000,
    "prefill " + "(" * 5000,
]


def tokens(half: tuple[int | None, ...] | None) -> Tokens | None:
    if half is None:
        return None
    return Tokens(requests=half[0], tokens=half[1], context=half[2], squares=half[3], products=half[4])


@pytest.mark.parametrize(("name", "phase", "prefill", "decode"), STEPS, ids=[step[0][:50] for step in STEPS])
def test_a_step(
    name: str, phase: str, prefill: tuple[int | None, ...] | None, decode: tuple[int | None, ...] | None
) -> None:
    mark = parse(name)
    assert mark is not None
    assert (mark.phase, mark.prefill, mark.decode) == (phase, tokens(prefill), tokens(decode))
    assert not mark.idle
    assert not mark.speculative


@pytest.mark.parametrize("name", NONE, ids=range(len(NONE)))
def test_no_step(name: str) -> None:
    assert parse(name) is None


@pytest.mark.parametrize(
    "name",
    [
        "step[TARGET_VERIFY bs=4]",
        "step[TARGET_VERIFY bs=4 g_sq=16 g_sqsq=64 g_sqsk=1600 g_sk=400]",
        "step[DECODE bs=4 g_sq=8 g_sqsq=16 g_sqsk=800 g_sk=400]",
        "execute_8_context_0(sq0sk0sqsq0sqsk0)_generation_2(sq8sk99sqsq32sqsk396)",
        "decode[bs=32 tok=128 d=32 spec=3 sqsq=512 sqsk=262144 sk=65536]",
        "verify",
    ],
)
def test_more_than_one_token_a_request_is_a_verify_step(name: str) -> None:
    mark = parse(name)
    assert mark is not None
    assert (mark.phase, mark.speculative) == ("decode", True)


@pytest.mark.parametrize(
    "name", ["execute_0_context_0(sq0sk0sqsq0sqsk0)_generation_0(sq0sk0sqsq0sqsk0)", "step[IDLE bs=0]"]
)
def test_idle(name: str) -> None:
    mark = parse(name)
    assert mark is not None
    assert mark.idle


def test_captures() -> None:
    assert all(is_capture(name) for name in ("capture_32_FULL", "capture_8192_PIECEWISE", "capture_256_mixed_prefill"))
    assert not is_capture("recapture_1_FULL")


@given(st.text(max_size=80))
def test_any_text_is_read_without_a_word(name: str) -> None:
    for text in (name, f"execute_{name}", f"step[{name}]", f"prefill {name}", f"[Executor] _forward_step {name}"):
        parse(text)
