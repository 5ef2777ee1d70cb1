"""Predictions of every family: the napkin is never undercut where it must not be, figures known elsewhere come out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phasewise.model import work
from phasewise.model.config import architecture
from phasewise.model.formats import WEIGHTS
from phasewise.model.load import load
from phasewise.model.model import Model, bytes_in
from phasewise.predict import napkin
from phasewise.predict.predict import decode_step, predict, prefill_step
from phasewise.predict.roofline import attention_crossover, computes_in, decode_floor, ridge_tokens, roofs
from phasewise.record.machine import Ceilings
from phasewise.record.quantity import Quantity
from reference import h100, reference_roof

GOLDENS = json.loads((Path(__file__).parents[1] / "model" / "oracle" / "goldens.json").read_text())["variants"]
BASES = {name: entry["config"] for name, entry in GOLDENS.items() if "," not in name}
ROOF = reference_roof()


def model(config: dict[str, Any]) -> Model:
    shape = architecture(config, "config.json")
    return Model(
        name="x",
        source="a small config",
        architecture=shape,
        weight_bytes=bytes_in(shape, WEIGHTS["bf16"]),
        weights_format="bf16",
        compute=("bf16",),
        kv_format="bf16",
        kv_element_bytes=2.0,
    )


@pytest.mark.parametrize("name", BASES)
def test_counted_never_exceeds_the_napkin_where_it_must_not(name: str) -> None:
    built = model(BASES[name])
    # A window of DeepSeek-V4 is no part of what a token of context adds.
    window = 1e5 if name == "deepseek_v4" else 0.0

    @settings(max_examples=15)
    @given(st.integers(1, 100_000), st.integers(1, 300))
    def holds(tokens: int, batch: int) -> None:
        decode, prefill = decode_step(built, ROOF, tokens, batch), prefill_step(built, ROOF, tokens, batch)
        assert decode.bytes <= decode.napkin.bytes * (1 + 1e-12) + window * batch
        assert prefill.weight_bytes <= prefill.napkin.bytes * (1 + 1e-12)
        # The floor sums the slower side of each operation, so it is never below either side alone.
        for step in (decode, prefill):
            assert step.time_s >= max(step.compute_s, step.memory_s) * (1 - 1e-12)

    holds()


@pytest.mark.parametrize("name", BASES)
def test_every_family_is_predicted_and_explained(name: str) -> None:
    found = predict(model(BASES[name]), ROOF, prompt=500, answer=20, batch=4)
    gains = [row.throughput_gain for row in found.batch]
    assert gains == sorted(gains)
    assert 0 <= found.prefill.attention_share < 1
    assert found.ridge_tokens > 0
    assert all(formula.numbers and formula.result for formula in found.formulas)


@pytest.mark.parametrize(
    ("name", "tokens"),
    # notes: "Qwen3-32B is 59.5k, not 95k; DeepSeek-V3 28.6k, not 82k; Llama-3-8B 53,250".
    [("llama-3-8b", 53_250), ("qwen3-32b", 59_500), ("deepseek-v3", 28_600)],
)
def test_known_crossovers(name: str, tokens: int) -> None:
    assert attention_crossover(load(name)) == pytest.approx(tokens, rel=0.002)


def test_kv_bytes_of_deepseek_v3() -> None:
    assert load("deepseek-v3", kv="bf16").kv_bytes_per_token == 70_272


def test_a_mixture_turns_compute_bound_later_and_gains_less_from_a_batch() -> None:
    moe, dense = load("qwen3-30b-a3b"), load("qwen3-8b")
    assert ridge_tokens(moe, ROOF) > 4 * ridge_tokens(dense, ROOF)
    tokens = ridge_tokens(moe, ROOF)
    layers = [op for op in work.decode(moe, 0.0, tokens).operations if op.name not in ("lm_head", "attention")]
    assert sum(float(op.flops) for op in layers) / ROOF.compute.value == pytest.approx(
        sum(float(op.weight_bytes) for op in layers) / ROOF.bandwidth.value, rel=1e-6
    )
    gain = 16 * float(decode_floor(moe, ROOF, 300.0)) / float(decode_floor(moe, ROOF, 300.0, 16.0))
    assert 1 < gain < 5
    # Batch 1 reads what one token uses; a large one everything.
    one, many = (float(work.decode(moe, 1.0, batch).weight_bytes) for batch in (1.0, 1e4))
    table = 2 * moe.architecture.parameters()["embedding"]
    assert one == pytest.approx(2 * moe.active_parameters - table)
    assert many == pytest.approx(2 * moe.parameters - table)


def test_the_napkin_of_a_mixture_takes_what_a_token_uses() -> None:
    moe = load("qwen3-30b-a3b")
    assert napkin.decode(moe, ROOF, 0.0).flops == 2 * moe.active_parameters
    assert napkin.decode(moe, ROOF, 0.0).bytes == pytest.approx(2 * moe.active_parameters)
    assert napkin.prefill(moe, ROOF, 1e6).bytes == pytest.approx(2 * moe.parameters)


@pytest.mark.parametrize(
    ("weights", "phrase"),
    [
        ("bf16", "bf16 (datasheet)"),
        ("fp8", "fp8 (datasheet)"),
        ("int4", "bf16 (datasheet): int4 weights are unpacked before the matmul"),
        ("nvfp4", "bf16 (datasheet): h100-sxm has no known fp4 rate for nvfp4 weights"),
        ("int8", "bf16 (datasheet): h100-sxm has no known int8 rate for int8 weights"),
    ],
)
def test_the_dtype_that_a_format_really_runs_in(weights: str, phrase: str) -> None:
    llama = load("llama-3-8b", weights=weights)
    assert computes_in(llama, h100(), roofs(llama, h100())[0]) == phrase


def test_fp4_runs_in_fp4_where_there_are_units_for_it() -> None:
    llama, machine = load("llama-3-8b", weights="nvfp4"), h100()
    rate = Quantity(value=10e15, unit="FLOP/s", provenance="datasheet", source="datasheet")
    ceilings = machine.ceilings[0]
    with_fp4: Ceilings = msgspec.structs.replace(ceilings, compute={**ceilings.compute, "fp4": rate})
    blackwell = msgspec.structs.replace(machine, name="b200", ceilings=(with_fp4,))
    (roof,) = roofs(llama, blackwell)
    assert roof.compute.value == 10e15
    assert computes_in(llama, blackwell, roof) == "fp4 (datasheet)"
