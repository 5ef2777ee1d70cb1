"""GGUF files of mixtures of experts and of latent attention: the same architecture as from config.json, exact bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from model_gguf_files import FFN, HEAD_DIM, HEADS, HIDDEN, KV, VOCAB, Q, Shapes, write

from phasewise.errors import InputError, UsageError
from phasewise.model import config
from phasewise.model.architecture import Architecture
from phasewise.model.load import load

LAYERS, EXPERTS, CHOSEN, UNITS = 4, 8, 2, 32
Q_RANK, KV_RANK, NOPE, ROPE, VALUE = 48, 40, 16, 8, 24

ATTENTION: Shapes = {
    "attn_norm.weight": (HIDDEN,),
    "ffn_norm.weight": (HIDDEN,),
    "attn_q.weight": (HEADS * HEAD_DIM, HIDDEN),
    "attn_k.weight": (KV * HEAD_DIM, HIDDEN),
    "attn_v.weight": (KV * HEAD_DIM, HIDDEN),
    "attn_output.weight": (HIDDEN, HEADS * HEAD_DIM),
}
NORMS: Shapes = {"attn_q_norm.weight": (HEAD_DIM,), "attn_k_norm.weight": (HEAD_DIM,)}
BIASES: Shapes = {f"attn_{part}.bias": (n * HEAD_DIM,) for part, n in (("q", HEADS), ("k", KV), ("v", KV))}
LATENT: Shapes = {
    "attn_norm.weight": (HIDDEN,),
    "ffn_norm.weight": (HIDDEN,),
    "attn_q_a.weight": (Q_RANK, HIDDEN),
    "attn_q_a_norm.weight": (Q_RANK,),
    "attn_q_b.weight": (HEADS * (NOPE + ROPE), Q_RANK),
    "attn_kv_a_mqa.weight": (KV_RANK + ROPE, HIDDEN),
    "attn_kv_a_norm.weight": (KV_RANK,),
    "attn_k_b.weight": (HEADS, KV_RANK, NOPE),
    "attn_v_b.weight": (HEADS, VALUE, KV_RANK),
    "attn_output.weight": (HIDDEN, HEADS * VALUE),
}
DENSE: Shapes = {
    "ffn_gate.weight": (FFN, HIDDEN),
    "ffn_up.weight": (FFN, HIDDEN),
    "ffn_down.weight": (HIDDEN, FFN),
}
ROUTED: Shapes = {
    "ffn_gate_inp.weight": (EXPERTS, HIDDEN),
    "ffn_gate_exps.weight": (EXPERTS, UNITS, HIDDEN),
    "ffn_up_exps.weight": (EXPERTS, UNITS, HIDDEN),
    "ffn_down_exps.weight": (EXPERTS, HIDDEN, UNITS),
}
SHARED: Shapes = {
    "ffn_gate_shexp.weight": (UNITS, HIDDEN),
    "ffn_up_shexp.weight": (UNITS, HIDDEN),
    "ffn_down_shexp.weight": (HIDDEN, UNITS),
}
ROUTED_BIASES: Shapes = {
    "ffn_gate_inp.bias": (EXPERTS,),
    "ffn_gate_exps.bias": (EXPERTS, UNITS),
    "ffn_up_exps.bias": (EXPERTS, UNITS),
    "ffn_down_exps.bias": (EXPERTS, HIDDEN),
}

BASE: dict[str, Any] = {
    "hidden_size": HIDDEN,
    "intermediate_size": FFN,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV,
    "head_dim": HEAD_DIM,
    "vocab_size": VOCAB,
    "max_position_embeddings": 512,
    "moe_intermediate_size": UNITS,
    "num_experts_per_tok": CHOSEN,
    "tie_word_embeddings": False,
}
MLA = {
    "q_lora_rank": Q_RANK,
    "kv_lora_rank": KV_RANK,
    "qk_nope_head_dim": NOPE,
    "qk_rope_head_dim": ROPE,
    "v_head_dim": VALUE,
    "n_routed_experts": EXPERTS,
    "n_shared_experts": 1,
    "first_k_dense_replace": 1,
    "num_key_value_heads": HEADS,
}
MLA_KEYS = {
    "attention.q_lora_rank": Q_RANK,
    "attention.kv_lora_rank": KV_RANK,
    "attention.key_length": KV_RANK + ROPE,
    "attention.key_length_mla": NOPE + ROPE,
    "attention.value_length": KV_RANK,
    "attention.value_length_mla": VALUE,
    "rope.dimension_count": ROPE,
}
OSS: Shapes = BIASES | {"attn_output.bias": (HIDDEN,), "attn_sinks.weight": (HEADS,)} | ROUTED_BIASES

# Architecture name: tensors of the first layer, of the others, metadata, and the same model as config.json.
MODELS: dict[str, tuple[Shapes, Shapes, dict[str, Any], dict[str, Any]]] = {
    "llama": (
        ATTENTION | ROUTED,
        ATTENTION | ROUTED,
        {},
        {"model_type": "mixtral", "num_local_experts": EXPERTS, "intermediate_size": UNITS},
    ),
    "qwen3moe": (
        ATTENTION | NORMS | ROUTED,
        ATTENTION | NORMS | ROUTED,
        {},
        {"model_type": "qwen3_moe", "num_experts": EXPERTS},
    ),
    "qwen2moe": (
        ATTENTION | BIASES | ROUTED | SHARED | {"ffn_gate_inp_shexp.weight": (HIDDEN,)},
        ATTENTION | BIASES | ROUTED | SHARED | {"ffn_gate_inp_shexp.weight": (HIDDEN,)},
        {},
        {"model_type": "qwen2_moe", "num_experts": EXPERTS, "shared_expert_intermediate_size": UNITS},
    ),
    "glm4moe": (
        ATTENTION | BIASES | DENSE,
        ATTENTION | BIASES | ROUTED | SHARED | {"exp_probs_b.bias": (EXPERTS,)},
        {},
        {
            "model_type": "glm4_moe",
            "n_routed_experts": EXPERTS,
            "n_shared_experts": 1,
            "attention_bias": True,
            "first_k_dense_replace": 1,
        },
    ),
    "gpt-oss": (
        ATTENTION | OSS | ROUTED,
        ATTENTION | OSS | ROUTED,
        {"attention.sliding_window": 48},
        {
            "model_type": "gpt_oss",
            "num_local_experts": EXPERTS,
            "intermediate_size": UNITS,
            "sliding_window": 48,
        },
    ),
    "minimax-m2": (
        ATTENTION | ROUTED | {"attn_q_norm.weight": (HEADS * HEAD_DIM,), "attn_k_norm.weight": (KV * HEAD_DIM,)},
        ATTENTION | ROUTED | {"attn_q_norm.weight": (HEADS * HEAD_DIM,), "attn_k_norm.weight": (KV * HEAD_DIM,)},
        {},
        {"model_type": "minimax_m2", "num_local_experts": EXPERTS, "intermediate_size": UNITS},
    ),
    "deepseek2": (
        LATENT | DENSE,
        LATENT | ROUTED | SHARED | {"exp_probs_b.bias": (EXPERTS,)},
        MLA_KEYS,
        {"model_type": "deepseek_v3", **MLA},
    ),
}


def file(path: Path, arch: str, kinds: dict[str, Q] | None = None, ahead: int = 0, **metadata: Any) -> Path:
    first, rest, keys, _ = MODELS[arch]
    blocks = [first, *[rest] * (LAYERS - 1 + ahead)]
    tensors: Shapes = {"token_embd.weight": (VOCAB, HIDDEN), "output.weight": (VOCAB, HIDDEN)}
    tensors["output_norm.weight"] = (HIDDEN,)
    tensors |= {f"blk.{n}.{name}": shape for n, block in enumerate(blocks) for name, shape in block.items()}
    values = {"expert_count": EXPERTS, "expert_used_count": CHOSEN, "block_count": LAYERS + ahead, **keys, **metadata}
    return write(path, arch, tensors=tensors, kinds=kinds, **values)


def shape(path: Path) -> Architecture:
    return load(str(path)).architecture


@pytest.mark.parametrize("arch", MODELS)
def test_each_reads_the_same_from_gguf_and_from_config(tmp_path: Path, arch: str) -> None:
    found, expected = shape(file(tmp_path / "m.gguf", arch)), config.architecture(BASE | MODELS[arch][3], "config.json")
    assert found.blocks == expected.blocks
    assert found.parameters() == expected.parameters()
    assert found.active() == expected.active()
    assert found.not_modelled == ()


def test_bytes_are_exact_and_scale_with_the_experts_met(tmp_path: Path) -> None:
    kinds = {"ffn_gate_exps": Q.Q4_0, "ffn_up_exps": Q.Q4_0, "ffn_down_exps": Q.Q8_0}
    model = load(str(file(tmp_path / "m.gguf", "qwen3moe", kinds)))
    one = UNITS * HIDDEN
    assert model.weight_bytes["experts"] == LAYERS * EXPERTS * one * (2 * 18 + 34) / 32
    untouched = EXPERTS - EXPERTS * (1 - (1 - CHOSEN / EXPERTS) ** 3)
    everything = sum(model.weight_bytes.values())
    assert model.touched_bytes(3.0) == pytest.approx(
        everything - model.weight_bytes["experts"] * untouched / EXPERTS, rel=1e-12
    )


def test_blocks_that_predict_ahead_stand_apart(tmp_path: Path) -> None:
    with_it, without = (
        load(str(file(tmp_path / f"{n}.gguf", "glm4moe", ahead=n, **({"nextn_predict_layers": 1} if n else {}))))
        for n in (1, 0)
    )
    assert with_it.architecture.blocks == without.architecture.blocks
    assert with_it.architecture.prediction > 0
    assert with_it.resident_bytes == without.resident_bytes
    assert with_it.parameters == without.parameters


@pytest.mark.parametrize(
    ("arch", "metadata", "kind", "said"),
    [
        ("qwen3moe", {"expert_used_count": 9}, InputError, "must be at most the 8 experts"),
        ("qwen3moe", {"expert_used_count": 0}, InputError, "expert_used_count must be a whole number"),
        ("deepseek2", {"rope.dimension_count": 24}, InputError, "key_length"),
        ("deepseek2", {"attention.kv_lora_rank": 41}, InputError, "qkv weights"),
        ("glm4moe", {"nextn_predict_layers": 4}, InputError, "must be below the 4 blocks"),
    ],
)
def test_contradictions_are_refused(
    tmp_path: Path, arch: str, metadata: dict[str, Any], kind: type[UsageError], said: str
) -> None:
    with pytest.raises(kind, match=said) as error:
        load(str(file(tmp_path / "m.gguf", arch, **metadata)))
    assert str(error.value).startswith("m.gguf")
