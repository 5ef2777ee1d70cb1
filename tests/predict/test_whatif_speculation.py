"""Speculative decoding: yield, verify cost and the batch at which it stops paying."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from parallel_models import mixtral, spread
from whatif_setups import alone, setup

from phasewise.fix import speculative as remedy
from phasewise.predict import speculation
from phasewise.predict.speculation import Draft, break_even, gain, proposing, tokens_per_step, verify

BANDWIDTH, PEAK = 3.35e12, 989e12
P, HEAD, KV = 6_979_588_096, 525_336_576, 131_072


@pytest.mark.parametrize(
    ("proposed", "acceptance", "expected"),
    [
        (4, 0.7, 1 + 0.7 + 0.7**2 + 0.7**3 + 0.7**4),
        (1, 0.5, 1.5),
        (5, 0.0, 1.0),
        (5, 1.0, 6.0),
        (7, 0.8, (1 - 0.8**8) / 0.2),
    ],
)
def test_tokens_per_step_by_hand(proposed: int, acceptance: float, expected: float) -> None:
    assert tokens_per_step(proposed, acceptance) == pytest.approx(expected)


def test_tokens_per_step_against_drawing_them() -> None:
    """Each proposed token is accepted with a chance of 0.7 until the first that is not; one more is the model's own."""
    draw = random.Random(1)
    total = 0
    for _ in range(20_000):
        accepted = 0
        while accepted < 4 and draw.random() < 0.7:
            accepted += 1
        total += accepted + 1
    assert total / 20_000 == pytest.approx(tokens_per_step(4, 0.7), rel=0.02)


@given(st.integers(1, 50), st.floats(0, 1))
def test_a_step_yields_between_one_and_all(proposed: int, acceptance: float) -> None:
    found = tokens_per_step(proposed, acceptance)
    assert 1 <= found <= proposed + 1 + 1e-9
    assert found <= tokens_per_step(proposed + 1, acceptance) + 1e-9


def test_the_remedy_has_no_formula_of_its_own() -> None:
    assert remedy.tokens_per_step is speculation.tokens_per_step
    assert remedy.DRAFT_COST is speculation.DRAFT_COST


def test_verifying_reads_the_weights_once_and_computes_for_every_token() -> None:
    one, draft = spread("llama-3-8b"), Draft(tokens=4, acceptance=0.7)
    step = verify(one, draft, 2000.0, 200.0)
    assert float(step.work.weight_bytes) == 2 * (P + HEAD)
    matmuls = float(step.work.flops - step.work.attention_flops)
    assert matmuls == pytest.approx(2 * (P + HEAD) * 5 * 200)
    assert float(step.work.kv_bytes) == 200 * 2000 * KV


def test_the_draft_by_hand() -> None:
    trial = alone("draft=4:0.7:0.1")
    plain = (2 * (P + HEAD) + 2000 * KV) / BANDWIDTH
    assert trial.outcome is not None
    assert trial.outcome.tokens_per_step == pytest.approx(2.7731)
    assert trial.outcome.step_s == pytest.approx(plain * 1.4, rel=1e-3)
    assert trial.outcome.tpot_s == pytest.approx(plain * 1.4 / 2.7731, rel=1e-3)
    assert trial.figures["draft_s"].value == pytest.approx(0.4 * plain, rel=1e-3)
    assert trial.figures["verify_s"].value == pytest.approx(plain, rel=1e-3)
    assert trial.decode is not None
    assert trial.decode.owner == "MLP (memory)"


def test_a_drafting_model_costs_its_own_steps() -> None:
    small = spread("llama-3.2-1b")
    trial = alone("draft=4:0.7:llama-3.2-1b")
    assert trial.figures["draft_s"].value == pytest.approx(4 * float(small.decode(2000.0).time_s))
    assert any("llama-3.2-1b" in note for note in trial.notes)


def test_it_stops_paying_where_verifying_turns_compute_bound() -> None:
    """Without a cache and with a free draft the verify step costs 5·2·P·B FLOPs against 2·P bytes.

    A plain step is memory-bound up to B = 295, so that it pays while 5·2·P·B / peak < 2.7731 · 2·P / bandwidth.
    """
    one, draft = spread("llama-3-8b"), Draft(tokens=4, acceptance=0.7, cost=0.0)
    most = break_even(one, draft, 0.0)
    assert most == pytest.approx(2.7731 * PEAK / BANDWIDTH / 5, abs=1.5)
    assert most is not None
    assert float(gain(one, draft, 0.0, float(most))) > 1 >= float(gain(one, draft, 0.0, float(most + 1)))


def test_break_even_is_the_last_batch_that_pays_by_brute_force() -> None:
    for one, context in ((spread("llama-3-8b"), 100.0), (spread(mixtral()), 50.0), (spread("llama-3-8b", tp=4), 200.0)):
        draft = Draft(tokens=3, acceptance=0.6)
        pays = [b for b in range(1, 3000) if float(gain(one, draft, context, float(b))) > 1]
        assert break_even(one, draft, context) == pays[-1]


def test_long_contexts_pay_at_every_batch_and_a_useless_draft_at_none() -> None:
    one = spread("llama-3-8b")
    assert break_even(one, Draft(tokens=4, acceptance=0.7), 4000.0) is None
    assert break_even(one, Draft(tokens=4, acceptance=0.0), 1000.0) == 0
    trial = alone("draft=4:0", setup())
    assert any("does not pay" in note and "at no batch" in note for note in trial.notes)
    assert trial.decode is not None
    assert trial.decode.after_s > trial.decode.before_s
    assert trial.decode.owner == "draft"


def test_a_sparse_model_pays_less_because_verifying_touches_more_experts() -> None:
    draft = Draft(tokens=4, acceptance=0.7)
    dense, sparse = (float(gain(spread(m), draft, 100.0)) for m in ("llama-3-8b", mixtral()))
    assert sparse < dense
    assert float(proposing(spread("llama-3-8b"), draft, 100.0)) > 0
