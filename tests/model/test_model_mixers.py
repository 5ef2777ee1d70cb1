"""Work of the mixers and feed-forward networks by hand, by loops over tokens, and by drawing experts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phasewise.errors import UsageError
from phasewise.model import work
from phasewise.model.architecture import Attention, Pass
from phasewise.model.config import architecture
from phasewise.model.feedforward.moe import Moe
from phasewise.model.formats import WEIGHTS
from phasewise.model.load import load
from phasewise.model.mixers.indexer import Indexer
from phasewise.model.mixers.latent import Latent
from phasewise.model.model import Model, bytes_in, with_skew

GOLDENS = json.loads((Path(__file__).parent / "oracle" / "goldens.json").read_text())["variants"]
BASES = {name: entry["config"] for name, entry in GOLDENS.items() if "," not in name}


def model(config: dict[str, Any], image: tuple[int, int] | None = None) -> Model:
    shape = architecture(config, "config.json", image)
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


def op(step: work.Work, name: str) -> work.Operation:
    return next(found for found in step.operations if found.name == name)


# DeepSeek-V3: 128 heads, latent 512, rotary 64, nope 128, value 128.
MLA = Latent(heads=128, q_rank=1536, kv_rank=512, nope=128, rope=64, value=128)


def test_latent_attention_is_absorbed_in_decode_and_not_in_prefill() -> None:
    (decode,) = MLA.operations(Pass(1.0, 4000.0, decode=True), 2.0)
    assert float(decode.flops) == 2 * 128 * (2 * 512 + 64) * 4000
    assert float(decode.kv_bytes) == 576 * 4000 * 2
    (prefill,) = MLA.operations(Pass(4000.0), 2.0)
    assert float(prefill.flops) == 128 * (128 + 64 + 128) * 4000**2
    assert float(prefill.kv_bytes) == 576 * 4000 * 2
    (chunk,) = MLA.operations(Pass(512.0, 32000.0), 2.0)
    again = 2 * 512 * 128 * (128 + 128) * 32000
    assert float(chunk.flops) == 2 * 128 * 320 * (512 * 32000 + 512**2 / 2) + again
    few, many = (MLA.operations(Pass(n, 32000.0), 2.0)[0].flops for n in (100.0, 300.0))
    assert float(few) == 2 * 128 * 1088 * (100 * 32000 + 5000)
    assert float(many) < 2 * 128 * 1088 * (300 * 32000 + 45000)


def test_the_indexer_scores_everything_and_attention_reads_the_best() -> None:
    indexer = Indexer(heads=64, dim=128, keep=2048, weights=10)
    sparse = Latent(heads=128, q_rank=1536, kv_rank=512, nope=128, rope=64, value=128, indexer=indexer)
    attention, scores = sparse.operations(Pass(1.0, 50_000.0, decode=True), 2.0)
    assert float(attention.flops) == 2 * 128 * 1088 * 2048
    assert float(attention.kv_bytes) == 576 * 2048 * 2
    assert float(scores.flops) == 2 * 64 * 128 * 50_000
    assert float(scores.kv_bytes) == 128 * 50_000 * 2
    assert sparse.kv_per_token == 576 + 128
    short, _ = sparse.operations(Pass(1.0, 1000.0, decode=True), 2.0)
    assert float(short.flops) == 2 * 128 * 1088 * 1000


@pytest.mark.parametrize(("tokens", "past"), [(10, 0), (10, 5), (20, 16), (3, 7), (1, 15), (40, 3)])
def test_chunked_attention_is_what_a_loop_counts(tokens: int, past: int) -> None:
    chunk = 8
    mixer = Attention(heads=1, kv_heads=1, head_dim=1, chunk=chunk)
    # The middle of each token on a continuous line, as for windows.
    counted = np.mod(np.arange(tokens * 1000) / 1000 + 0.0005 + past, chunk).sum() / 1000
    assert float(mixer.pairs(Pass(float(tokens), float(past)))) == pytest.approx(counted, rel=1e-6)
    decode = mixer.operations(Pass(1.0, float(past), decode=True), 2.0)[0]
    assert float(decode.kv_bytes) == past % chunk * 2 * 2


def test_a_draft_is_verified_in_one_pass() -> None:
    llama = load("llama-3-8b")
    one, five = work.decode(llama, 1000.0), work.decode(llama, 1000.0, tokens=5.0)
    assert float(five.weight_bytes) == float(one.weight_bytes)
    assert float(five.kv_bytes) == float(one.kv_bytes)
    # Tokens 0 to 4 see 1,000 to 1,004 cached ones and each other.
    assert float(five.attention_flops) == 32 * 4 * 32 * 128 * (5 * 1000 + 10)
    assert float(op(five, "lm_head").flops) == 5 * float(op(one, "lm_head").flops)


def test_a_mixed_step_reads_the_weights_once() -> None:
    llama = load("llama-3-8b")
    chunk, tokens = Pass(512.0, 1024.0), Pass(1.0, 2000.0, 16.0, decode=True)
    mixed, alone = work.step(llama, chunk, tokens), [work.step(llama, chunk), work.step(llama, tokens)]
    assert float(mixed.flops) == pytest.approx(sum(float(step.flops) for step in alone), rel=1e-12)
    assert float(mixed.kv_bytes) == sum(float(step.kv_bytes) for step in alone)
    assert float(mixed.weight_bytes) == float(alone[0].weight_bytes)
    assert float(op(mixed, "lm_head").flops) == 17 * 2 * 128256 * 4096


def test_a_mixture_reads_the_experts_it_is_expected_to_meet() -> None:
    moe = Moe(experts=128, chosen=8, intermediate=768)
    # notes/physics.md: 128 experts, 8 chosen, 1 to 64 tokens.
    found = [round(float(moe.distinct(float(n))), 1) for n in (1, 2, 4, 8, 16, 32, 64)]
    assert found == [8.0, 15.5, 29.1, 51.6, 82.4, 111.8, 125.9]
    qwen = model(BASES["qwen3_moe"])
    experts = qwen.weight_bytes["experts"]
    for batch in (1.0, 3.0, 50.0):
        expected = experts * (1 - (1 - 2 / 8) ** batch)
        assert float(op(work.decode(qwen, 100.0, batch), "experts").weight_bytes) == pytest.approx(expected)
        assert float(op(work.prefill(qwen, batch), "experts").weight_bytes) == pytest.approx(expected)
    assert float(op(work.decode(qwen, 100.0, 3.0), "experts").flops) == 2 * 3 * qwen.architecture.active()["experts"]


@pytest.mark.parametrize("skew", [0.0, 0.5, 1.0, 1.5])
@pytest.mark.parametrize(("experts", "chosen"), [(128, 8), (16, 1), (8, 2)])
def test_skewed_routing_is_what_drawing_gives(experts: int, chosen: int, skew: float) -> None:
    random = np.random.default_rng(7)
    # Each expert is met on its own with its chance; the chances sum to the number chosen.
    popular = np.arange(1.0, experts + 1) ** -skew
    chances = popular / popular.sum() * chosen
    while (chances > 1).any():
        over = chances >= 1
        chances[~over] *= (chosen - over.sum()) / chances[~over].sum()
        chances[over] = 1
    moe = Moe(experts=experts, chosen=chosen, intermediate=1, skew=skew)
    for tokens in (1, 4, 16, 64):
        draws = 400 if experts > 16 else 6000
        drawn = (random.random((draws, tokens, experts)) < chances).any(axis=1).sum(axis=1).mean()
        assert float(moe.distinct(float(tokens))) == pytest.approx(drawn, rel=0.05)


def test_a_balanced_routing_meets_as_many_as_it_can() -> None:
    moe = Moe(experts=128, chosen=8, intermediate=1, skew=-1.0)
    assert [float(moe.distinct(n)) for n in (1.0, 10.0, 16.0, 64.0)] == [8, 80, 128, 128]


@given(st.integers(1, 300), st.data(), st.floats(0, 4), st.floats(1, 1e5), st.floats(1, 1e5))
def test_experts_met_grow_with_tokens_and_shrink_with_skew(
    experts: int, data: st.DataObject, skew: float, few: float, more: float
) -> None:
    chosen = data.draw(st.integers(1, experts))
    plain, skewed = (Moe(experts=experts, chosen=chosen, intermediate=1, skew=s) for s in (0.0, skew))
    for moe in (plain, skewed):
        met = float(moe.distinct(few))
        assert chosen * (1 - 1e-9) <= met <= min(experts, chosen * few) * (1 + 1e-9)
        assert met <= float(moe.distinct(few + more)) * (1 + 1e-12)
    assert float(skewed.distinct(few)) <= float(plain.distinct(few)) * (1 + 1e-9)


def test_the_skew_is_an_input_of_load(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(BASES["qwen3_moe"]))
    even, skewed = load(str(tmp_path)), load(str(tmp_path), skew=1.2)
    assert float(work.decode(skewed, 10.0, 8.0).weight_bytes) < float(work.decode(even, 10.0, 8.0).weight_bytes)
    assert skewed.parameters == even.parameters
    for wrong in (-0.5, 11.0, float("nan")):
        with pytest.raises(UsageError, match="routing skew"):
            with_skew(even, wrong)


def test_recurrent_states_do_not_grow_with_the_context() -> None:
    # 36 layers of 32 x 128 x 128 in FP32, and 3 of (2 x 16 x 128 + 32 x 128) in BF16: notes/physics.md, 73.7 MiB.
    config = dict(BASES["qwen3_next"])
    config |= {"linear_num_key_heads": 16, "linear_num_value_heads": 32, "num_hidden_layers": 48}
    config |= {"linear_key_head_dim": 128, "linear_value_head_dim": 128}
    big = model(config)
    assert big.state_bytes_per_request == 36 * (32 * 128 * 128 * 4 + 3 * 8192 * 2)
    assert big.state_bytes_per_request / 2**20 == pytest.approx(73.7, abs=0.05)
    mamba = model(BASES["mamba"])
    assert mamba.kv_bytes_per_token == 0
    short, long = work.decode(mamba, 1.0), work.decode(mamba, 1e6)
    assert float(short.bytes) == float(long.bytes)
    assert float(short.flops) == float(long.flops)
    assert float(short.kv_bytes) == 2 * mamba.state_bytes_per_request == 2 * 3 * (128 * 16 * 4 + 128 * 3 * 2)
    assert float(work.decode(mamba, 1.0, 7.0).kv_bytes) == 7 * float(short.kv_bytes)


def test_an_encoder_runs_once_and_its_tokens_are_seen_at_every_step() -> None:
    bart = model(BASES["bart"])
    shape, n = bart.architecture, 50.0
    assert shape.encoder
    prefill, decode = work.prefill(bart, n), work.decode(bart, n)
    layers = 3 * (4 * 64 * 64 + 4 * 64 + 2 * 64 * 96 + 96 + 64 + 4 * 64)
    assert float(op(prefill, "encoder").flops) == 2 * layers * n
    # Encoder: 4·H·h·N² a layer both ways. Decoder: one token over N encoded ones in two layers.
    assert float(prefill.attention_flops) == 3 * 4 * 64 * n * n + 2 * 4 * 64 * n + 2 * 4 * 64 / 2
    assert float(op(prefill, "cross").flops) == 2 * 2 * (2 * 64 * 64 + 2 * 64) * n
    assert not any(found.name == "encoder" for found in decode.operations)
    assert float(op(decode, "cross").weight_bytes) == 0
    assert float(decode.kv_bytes) == 2 * 2 * 64 * n * 2 == bart.kv_bytes_per_token * n
    whisper = model(BASES["whisper"])
    assert whisper.state_bytes_per_request == 2 * 2 * 64 * 150 * 2
    assert float(work.decode(whisper, 10.0).kv_bytes) == 2 * 2 * 64 * (10 + 150) * 2
    assert float(op(work.prefill(whisper, 4.0), "encoder").flops) == float(
        op(work.prefill(whisper, 40.0), "encoder").flops
    )


def test_an_image_costs_its_tower_and_wakes_the_layers_that_see_it() -> None:
    plain, seeing = model(BASES["mllama"]), model(BASES["mllama"], image=(56, 100))
    assert plain.parameters == seeing.parameters
    assert plain.active_parameters < seeing.active_parameters == seeing.parameters
    assert not any(found.name == "vision" for found in work.prefill(plain, 10.0).operations)
    # Two tiles of 4 x 4 patches and a class token.
    assert seeing.architecture.vision
    assert seeing.architecture.vision.out == 2 * 17
    assert float(work.decode(seeing, 0.0).kv_bytes) == 2 * (2 * 2 * 16) * 34 * 2
    qwen = model(BASES["qwen2_5_vl"], image=(280, 560))
    assert qwen.architecture.vision
    assert (qwen.architecture.vision.tokens, qwen.architecture.vision.out) == (20 * 40, 10 * 20)
    without = model(BASES["qwen2_5_vl"])
    extra = float(work.prefill(qwen, 300.0).flops) - float(work.prefill(without, 300.0).flops)
    assert extra > 2 * 800 * 4 * (4 * 32 * 32 + 3 * 32 * 48)
    assert float(work.decode(qwen, 300.0).flops) == float(work.decode(without, 300.0).flops)
    with pytest.raises(UsageError, match="an image cannot be costed"):
        model(BASES["llama"], image=(10, 10))


@pytest.mark.parametrize("name", BASES)
def test_work_grows_with_every_dimension(name: str) -> None:
    built = model(BASES[name])
    chunked = any(isinstance(b.mixer, Attention) and b.mixer.chunk for b in built.architecture.blocks)

    @settings(max_examples=15)
    @given(st.floats(1, 1e5), st.floats(0.1, 1e5), st.integers(1, 200))
    def grows(n: float, more: float, batch: int) -> None:
        for step in (work.prefill, work.decode):
            small = step(built, n, float(batch))
            wider, longer = step(built, n, batch + 1.0), step(built, n + more, float(batch))
            assert float(wider.flops) > float(small.flops)
            assert float(wider.bytes) >= float(small.bytes) * (1 - 1e-12)
            # A chunk forgets all that was before it: a decode step right after its end reads little.
            if not (chunked and step is work.decode):
                assert float(longer.flops) >= float(small.flops) * (1 - 1e-12)
                assert float(longer.bytes) >= float(small.bytes) * (1 - 1e-12)
        held = [float(built.request_bytes(tokens)) for tokens in (n, n + more)]
        assert held[0] <= held[1] <= built.kv_bytes_per_token * (n + more) + built.request_bytes(0.0) + 1e6

    grows()


@pytest.mark.parametrize("name", BASES)
def test_a_grid_is_counted_in_one_call(name: str) -> None:
    built = model(BASES[name])
    tokens, batch = np.meshgrid(np.array([1.0, 100.0, 5000.0]), np.array([1.0, 7.0]))
    for step in (work.prefill, work.decode):
        grid = step(built, tokens, batch)
        for row, column in ((0, 0), (1, 2), (0, 1)):
            one = step(built, float(tokens[row, column]), float(batch[row, column]))
            for value, alone in ((grid.flops, one.flops), (grid.bytes, one.bytes)):
                assert np.broadcast_to(value, (2, 3))[row, column] == pytest.approx(float(alone), rel=1e-12)
