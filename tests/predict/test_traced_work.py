"""Work of a step from the sums of an annotation, against the work of its requests one by one and hand arithmetic."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasewise.model import work
from phasewise.model.load import load
from phasewise.model.model import Model
from phasewise.model.passes import Pass
from phasewise.predict import sums as said_sums
from phasewise.predict import traced
from phasewise.predict.roofline import prefill_floor
from phasewise.predict.sums import Contradiction, sums
from phasewise.predict.traced import Halves, count, mean_step
from phasewise.record.trace import Tokens
from reference import llama_3_8b, reference_roof

Request = tuple[int, int]
"""New tokens, and tokens cached before them."""

PROMPTS = st.lists(st.tuples(st.integers(1, 9000), st.integers(0, 30000)), min_size=1, max_size=12)
GENERATIONS = st.lists(st.tuples(st.integers(1, 8), st.integers(0, 30000)), min_size=1, max_size=12)


def said(requests: list[Request]) -> Tokens:
    """What an engine would annotate."""
    return Tokens(
        requests=len(requests),
        tokens=sum(q for q, _ in requests),
        context=sum(q + p for q, p in requests),
        squares=sum(q * q for q, _ in requests),
        products=sum(q * (q + p) for q, p in requests),
    )


def one_by_one(model: Model, prompts: list[Request], generations: list[Request]) -> work.Work:
    passes = [Pass(float(q), float(p)) for q, p in prompts]
    passes += [Pass(float(q), float(p), decode=True) for q, p in generations]
    return work.step(model, *passes)


def same(found: work.Work, expected: work.Work) -> None:
    for name in ("flops", "attention_flops", "weight_bytes", "kv_bytes"):
        assert float(getattr(found, name)) == pytest.approx(float(getattr(expected, name)), rel=1e-9), name


@given(PROMPTS, GENERATIONS)
def test_a_step_from_its_sums_does_what_its_requests_do(prompts: list[Request], generations: list[Request]) -> None:
    model = llama_3_8b()
    for halves, alone in (
        ((said(prompts), None), (prompts, [])),
        ((None, said(generations)), ([], generations)),
        ((said(prompts), said(generations)), (prompts, generations)),
    ):
        counted = count([halves])
        assert not counted.assumed
        same(mean_step(model, reference_roof(), counted).work, one_by_one(model, *alone))
        same(work.step(model, *counted.mean), one_by_one(model, *alone))


@given(st.lists(PROMPTS, min_size=1, max_size=4), st.lists(GENERATIONS, min_size=1, max_size=4))
def test_the_mean_of_several_steps_is_the_mean_of_their_work(
    prefills: list[list[Request]], decodes: list[list[Request]]
) -> None:
    model = llama_3_8b()
    halves: list[Halves] = [(said(one), None) for one in prefills]
    halves += [(None, said(one)) for one in decodes]
    alone = [one_by_one(model, one, []) for one in prefills] + [one_by_one(model, [], one) for one in decodes]
    found = mean_step(model, reference_roof(), count(halves))
    for name in ("flops", "weight_bytes", "kv_bytes"):
        mean = sum(float(getattr(one, name)) for one in alone) / len(alone)
        assert float(getattr(found.work, name)) == pytest.approx(mean, rel=1e-9)


@given(PROMPTS, GENERATIONS)
def test_lm_head_has_a_row_for_each_prompt_and_each_generated_token(
    prompts: list[Request], generations: list[Request]
) -> None:
    found = mean_step(llama_3_8b(), reference_roof(), count([(said(prompts), said(generations))])).work
    head = next(op for op in found.operations if op.name == "lm_head")
    rows = len(prompts) + sum(q for q, _ in generations)
    assert float(head.flops) == pytest.approx(2 * 525_336_576 * rows, rel=1e-9)


def test_the_reference_prefill_and_decode_step() -> None:
    prefill = mean_step(llama_3_8b(), reference_roof(), count([(said([(2000, 0)]), None)]))
    # 6.98e9 weights · 2 · 2,000 + 2·32·4096·2000² + lm_head once, over 989 TFLOP/s: 29.3 ms, of which attention 3.6%.
    flops = 2 * 6_979_588_096 * 2000 + 2 * 32 * 4096 * 2000**2 + 2 * 525_336_576
    assert float(prefill.work.flops) == pytest.approx(flops, rel=1e-4)
    assert float(prefill.work.flops) / 989e12 == pytest.approx(29.3e-3, rel=0.002)
    assert prefill.floor_s == pytest.approx(float(prefill_floor(llama_3_8b(), reference_roof(), 2000.0)))
    assert prefill.attention_s / prefill.floor_s == pytest.approx(0.036, abs=0.001)
    decode = mean_step(llama_3_8b(), reference_roof(), count([(None, said([(1, 2000)] * 64))]))
    assert float(decode.work.kv_bytes) == 64 * 2000 * 131_072
    assert decode.floor_s == pytest.approx(9.49e-3, rel=0.003)


def test_the_step_of_a_public_trace_by_hand() -> None:
    """SGLang, Qwen3-8B, MI300X: decode of 32 requests with 32,785 tokens of context, prefill of 15 prompts of 1,024."""
    model = load("qwen3-8b")
    layer = 4096 * 128 * (2 * 32 + 2 * 8) + 3 * 4096 * 12288 + 2 * 4096 + 2 * 128
    read = 2 * (36 * layer + 4096 + 151_936 * 4096)
    decode = mean_step(
        model, reference_roof(), count([(None, Tokens(requests=32, tokens=32, context=32_785, squares=32))])
    ).work
    assert float(decode.weight_bytes) == read
    assert float(decode.kv_bytes) == pytest.approx((32_785 - 32) * 36 * 2 * 8 * 128 * 2)
    # 19.97 GB in the 9.77 ms that its kernels take, over 5.3 TB/s: 38.6%.
    assert float(decode.bytes) / 9.7654e-3 / 5.3e12 == pytest.approx(0.386, abs=0.002)
    prompts = Tokens(requests=15, tokens=15_360, context=15_360, squares=15_728_640, products=15_728_640)
    prefill = mean_step(model, reference_roof(), count([(prompts, None)])).work
    flops = 2 * 36 * layer * 15_360 + 36 * 2 * 32 * 128 * 15 * 1024**2 + 15 * 2 * 151_936 * 4096
    assert float(prefill.flops) == pytest.approx(flops, rel=1e-4)
    assert float(prefill.flops) / 492.77e-3 / 1307.4e12 == pytest.approx(0.338, abs=0.002)


def test_counts_alone_are_completed_and_what_that_takes_for_granted_is_said() -> None:
    found = count([(Tokens(requests=15, tokens=15_360), None)])
    assert found.assumed == (said_sums.EQUAL, said_sums.NO_PREFIX)
    same(work.step(llama_3_8b(), *found.mean), one_by_one(llama_3_8b(), [(1024, 0)] * 15, []))
    bare = count([(None, Tokens(requests=32))])
    assert bare.assumed == (said_sums.ONE_TOKEN, said_sums.NO_CONTEXT)
    assert float(work.step(llama_3_8b(), *bare.mean).kv_bytes) == 0.0
    older = count([(Tokens(requests=1, tokens=888, products=888 * 1000), None)])
    assert not older.assumed
    same(work.step(llama_3_8b(), *older.mean), one_by_one(llama_3_8b(), [(888, 112)], []))


def test_an_empty_half_is_none_and_a_step_without_counts_is_left_out() -> None:
    nothing = Tokens(requests=0, tokens=0, context=0, squares=0, products=0)
    assert sums(nothing, decode=True) == (None, ())
    found = count([(None, None), (nothing, said([(1, 5)])), (nothing, nothing)])
    assert found.which == (1,)
    assert found.contradictory == 0


@pytest.mark.parametrize(
    "bad",
    [
        Tokens(requests=3, tokens=2),
        Tokens(requests=-3, tokens=9),
        Tokens(requests=2, tokens=10, context=9),
        Tokens(requests=2, tokens=10, squares=49),
        Tokens(requests=2, tokens=10, squares=101),
        Tokens(requests=2, tokens=10, context=100, squares=50, products=49),
        Tokens(requests=2, tokens=10, context=100, squares=50, products=1001),
        Tokens(requests=1, tokens=10**400),
    ],
)
def test_sums_that_no_requests_have_are_refused(bad: Tokens) -> None:
    with pytest.raises(Contradiction):
        sums(bad, decode=False)
    found = count([(bad, None), (said([(10, 0)]), None)])
    assert (found.which, found.contradictory) == ((1,), 1)


def test_a_window_is_inexact_for_unequal_requests() -> None:
    gemma = load("gemma-3-1b")
    assert traced.inexact(gemma, count([(said([(10, 0), (9000, 0)]), None)]))
    assert not traced.inexact(gemma, count([(said([(9000, 0)]), None)]))
    assert not traced.inexact(llama_3_8b(), count([(said([(10, 0), (9000, 0)]), None)]))


def test_what_the_mean_step_is_at() -> None:
    found = count([(None, said([(1, 1000), (1, 3000)])), (None, said([(1, 2000), (1, 2000)]))])
    assert found.tokens == pytest.approx(2.0)
    assert found.context == pytest.approx(2000.0)
