"""What each device holds and reads, against arithmetic by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from parallel_models import deepseek, mixtral, model, spread

from phasewise.errors import UsageError
from phasewise.model.architecture import Architecture, Block, Mlp
from phasewise.model.load import load
from phasewise.model.mixers.recurrent import Recurrent
from phasewise.model.parts import NoFeedForward, NoMixer
from phasewise.predict.parallel.layout import Layout, layout
from phasewise.predict.parallel.share import share
from reference import llama_3_8b

LLAMA, MIXTRAL, DEEPSEEK = llama_3_8b(), mixtral(), deepseek()
D, F, V, H, K, HD = 4096, 14336, 128256, 32, 8, 128


@pytest.mark.parametrize("tp", [1, 2, 4, 8, 16])
def test_a_share_of_llama_by_hand(tp: int) -> None:
    own = share(LLAMA, Layout(tp=tp))
    kv_heads = max(1, K // tp)
    assert own.architecture.parameters() == {
        "embedding": V // tp * D,
        "lm_head": V // tp * D,
        "norm": 65 * D,
        "qkv": 32 * D * HD * (H // tp + 2 * kv_heads),
        "output": 32 * D * HD * H // tp,
        "mlp_in": 32 * 2 * D * F // tp,
        "mlp_out": 32 * D * F // tp,
    }
    assert own.kv_bytes_per_token == 32 * kv_heads * HD * 2 * 2
    assert own.resident_bytes == pytest.approx(2 * own.parameters)


def test_kv_heads_are_replicated_where_there_are_more_devices_than_heads() -> None:
    assert share(LLAMA, Layout(tp=8)).kv_bytes_per_token == share(LLAMA, Layout(tp=16)).kv_bytes_per_token


def test_a_replicated_head_and_embedding_stay_whole() -> None:
    own = share(LLAMA, Layout(tp=8, head="replicated")).architecture.parameters()
    assert own["lm_head"] == own["embedding"] == V * D
    assert own["mlp_out"] == 32 * D * F // 8


def test_the_latent_cache_and_what_makes_it_are_on_every_device() -> None:
    own = share(DEEPSEEK, Layout(tp=8))
    assert own.kv_bytes_per_token == DEEPSEEK.kv_bytes_per_token == 58 * (512 + 64) * 2
    d, heads = 7168, 128 // 8
    query = d * 1536 + 1536 * heads * (128 + 64)
    latent = d * (512 + 64) + 512 * heads * (128 + 128)
    assert own.architecture.parameters()["qkv"] == 58 * (query + latent)
    assert own.architecture.parameters()["router"] == 58 * d * 256


def test_experts_are_cut_or_dealt_out_and_take_as_many_bytes_either_way() -> None:
    cut, dealt = share(MIXTRAL, Layout(tp=4)), share(MIXTRAL, Layout(tp=4, ep=4))
    experts = 32 * 8 * 3 * 4096 * 14336
    assert cut.architecture.parameters()["experts"] == dealt.architecture.parameters()["experts"] == experts / 4
    assert cut.architecture.active()["experts"] == dealt.architecture.active()["experts"] == experts / 4 / 4


def test_a_hit_is_as_likely_under_expert_parallelism() -> None:
    """8 tokens choose 8·(1 − (3/4)^8) of 8 experts; each of 4 devices has a quarter of them."""
    own = share(MIXTRAL, Layout(tp=4, ep=4)).architecture.touched(8.0)
    assert float(own["experts"]) == pytest.approx(32 * 8 * (1 - 0.75**8) / 4 * 3 * 4096 * 14336)


def test_dp_attention_holds_attention_whole_and_experts_once() -> None:
    own = share(DEEPSEEK, Layout(dp=8, ep=8)).architecture.parameters()
    whole = DEEPSEEK.architecture.parameters()
    assert {role: own[role] for role in ("qkv", "output", "shared_in", "lm_head")} == {
        role: whole[role] for role in ("qkv", "output", "shared_in", "lm_head")
    }
    assert own["experts"] == whole["experts"] / 8


def test_states_are_cut_and_layers_without_parts_are_none() -> None:
    state = Recurrent(kind="mamba", into=800, out=400, rest=40, state=1600, conv_state=80, flops_per_state=6.0)
    blocks = (
        Block(mixer=state, mlp=NoFeedForward(), norm_weights=8, count=3),
        Block(mixer=NoMixer(), mlp=Mlp(intermediate=64), norm_weights=8, count=2),
    )
    shape = Architecture(family="hybrid", hidden=16, vocab=100, tied=True, blocks=blocks, final_norm=16)
    own = share(model(shape), Layout(tp=4))
    assert own.state_bytes_per_request == 3 * (400 * 4 + 20 * 2)
    assert own.architecture.parameters()["mlp_in"] == 2 * 2 * 16 * 16


def test_the_fullest_stage_of_a_pipeline_holds_its_layers_and_one_table() -> None:
    one = spread("llama-3-8b", pp=3)
    table, layers = 2 * V * D, 2 * 32 * (D * HD * (2 * H + 2 * K) + 3 * D * F)
    assert one.held_bytes == pytest.approx(table + (layers + 2 * 65 * D) * 11 / 32)
    assert one.held_per_token == 131_072 * 11 / 32


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"tp": 3}, "32 attention heads cannot be cut over 3 devices"),
        ({"pp": 33}, "32 layers, too few for 33 stages"),
        ({"tp": 2, "ep": 2}, "no experts"),
    ],
)
def test_a_layout_that_the_model_cannot_have_is_refused(parts: dict[str, int], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        share(LLAMA, Layout(**parts))


def test_experts_that_do_not_divide_are_refused() -> None:
    with pytest.raises(UsageError, match="8 experts cannot be dealt out to 16"):
        share(MIXTRAL, Layout(tp=16, ep=16))


def test_devices_without_tp_are_tensor_parallel_and_contradictions_are_refused() -> None:
    assert layout(4) == Layout(tp=4)
    assert layout(8, pp=2) == Layout(tp=4, pp=2)
    assert layout(8, dp=8, ep=8) == Layout(tp=1, dp=8, ep=8)
    assert layout(tp=2, pp=2).devices == 4
    for parts in ({"devices": 4, "tp": 2}, {"devices": 9, "pp": 2}, {"ep": 8}, {"tp": 10**6}):
        with pytest.raises(UsageError):
            layout(**parts)


@pytest.mark.parametrize(
    ("one", "words"),
    [
        (Layout(), "TP=1"),
        (Layout(tp=4, pp=2), "TP=4, PP=2"),
        (Layout(dp=8, ep=8), "DP attention=8, EP=8"),
        (Layout(pp=2), "PP=2"),
    ],
)
def test_a_layout_in_words(one: Layout, words: str) -> None:
    assert str(one) == words


@pytest.mark.parametrize("tp", [2, 8])
def test_every_real_config_is_cut_or_refused_in_a_sentence(tp: int) -> None:
    folder = Path(__file__).parents[3] / "shared" / "data" / "configs"
    if not folder.is_dir():
        pytest.skip("skipped: no shared data")
    cut, sentences = 0, list[str]()
    for file in sorted(folder.glob("*.json")):
        try:
            whole = load(str(file))
        except UsageError:
            continue
        try:
            own = share(whole, Layout(tp=tp))
        except UsageError as refused:
            sentences.append(str(refused))
            continue
        cut += 1
        assert whole.resident_bytes / tp * (1 - 1e-9) <= own.resident_bytes < whole.resident_bytes, file.name
        assert whole.kv_bytes_per_token / tp <= own.kv_bytes_per_token <= whole.kv_bytes_per_token, file.name
        for role, held in own.weight_bytes.items():
            assert held <= whole.weight_bytes[role], (file.name, role)
    assert cut > 20
    assert not any("\n" in sentence for sentence in sentences)
