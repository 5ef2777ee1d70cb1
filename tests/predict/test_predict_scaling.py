"""Batch and context: gains, where decode turns compute-bound, and the table that shows them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasewise.hardware import catalogue
from phasewise.predict.predict import decode_step
from phasewise.predict.scaling import CONTEXTS, compute_bound_batch, scaling, throughput_gain
from published_models import MIXTRAL, from_keys
from reference import h100, llama_3_8b, reference_roof

MODEL, ROOF = llama_3_8b(), reference_roof()
P, HEAD, PEAK, BANDWIDTH, KV = 6_979_588_096, 525_336_576, 989e12, 3.35e12, 131_072


@pytest.mark.parametrize(("context", "gain"), [(0, 64), (10, 63.6), (300, 55), (2000, 30.7)])
def test_short_contexts_come_near_64_and_2000_tokens_give_31(context: int, gain: float) -> None:
    # At no context at all the weights are all that is read; the rest is each request's KV.
    assert float(throughput_gain(MODEL, ROOF, float(context), 64.0)) == pytest.approx(gain, abs=0.06)


@pytest.mark.parametrize("context", [0, 100, 300, 380])
def test_the_batch_at_which_math_takes_as_long_as_reading_by_hand(context: int) -> None:
    math_s = (2 * (P + HEAD) + 4 * 32 * 32 * 128 * context) / PEAK
    read_s, weights_s = KV * context / BANDWIDTH, 2 * (P + HEAD) / BANDWIDTH
    found = float(compute_bound_batch(MODEL, ROOF, float(context)))
    assert found == pytest.approx(weights_s / (math_s - read_s), rel=1e-6)
    whole = math.ceil(found)
    assert decode_step(MODEL, ROOF, context, whole).bound == "compute"
    assert decode_step(MODEL, ROOF, context, whole - 1).bound == "memory"


def test_from_some_context_on_no_batch_is_compute_bound() -> None:
    # 2 · 7.5e9 FLOPs + 524,288 · c take as long as reading 131,072 · c bytes at 393 tokens of context.
    limit = 2 * (P + HEAD) / PEAK / (KV / BANDWIDTH - 4 * 32 * 32 * 128 / PEAK)
    found = compute_bound_batch(MODEL, ROOF, np.array([limit * 0.999, limit * 1.001, 2000.0]))
    assert math.isfinite(found[0])
    assert np.isinf(found[1:]).all()
    assert decode_step(MODEL, ROOF, 2000, 1_000_000).bound == "memory"


def test_a_mixture_turns_compute_bound_later_than_its_active_weights_say() -> None:
    mixtral = from_keys(MIXTRAL)
    dense_ridge = PEAK / BANDWIDTH
    at = float(compute_bound_batch(mixtral, ROOF, 0.0))
    # From some tens of tokens on every one of the 8 experts is read, and 2 of 8 are computed with.
    assert at == pytest.approx(dense_ridge * 46.57 / 12.75, rel=0.02)


@given(st.integers(0, 390), st.integers(1, 100))
def test_longer_contexts_turn_compute_bound_later(context: int, more: int) -> None:
    first, later = compute_bound_batch(MODEL, ROOF, np.array([float(context), float(context + more)]))
    assert later >= first


def test_the_table() -> None:
    found = scaling(MODEL, ROOF, catalogue.machine(catalogue.find("h100-sxm")), 2000, 300)
    assert [row.context for row in found.rows] == list(CONTEXTS)
    rows = {row.context: row for row in found.rows}
    assert f"{rows[2000].throughput_gain:.1f}" == "30.7"
    assert rows[2000].step_s == pytest.approx(4.559e-3, rel=1e-3)
    assert rows[2000].compute_bound_at is None is found.compute_bound_at
    assert rows[100].compute_bound_at == 396
    assert found.fits is not None
    assert (found.fits.context, found.fits.largest_batch) == (2300, 200)
    last = rows[128_000]
    assert last.largest_batch == 3
    assert last.largest_tokens_per_s == pytest.approx(3 / (last.largest_step_s or 0))


def test_without_a_memory_and_where_nothing_fits_the_table_says_so() -> None:
    blind = scaling(MODEL, ROOF, h100(), 2000, 300)
    assert blind.fits is None
    assert all(row.largest_batch is row.largest_step_s is None for row in blind.rows)
    small = scaling(MODEL, ROOF, catalogue.machine(catalogue.find("t4")), 777, 1)
    assert 777 in [row.context for row in small.rows]
    assert all(row.largest_batch == 0 and row.largest_step_s is None for row in small.rows)
