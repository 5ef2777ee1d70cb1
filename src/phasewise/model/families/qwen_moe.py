"""Qwen2-MoE, Qwen3-MoE, and the text of Qwen3-VL-MoE: Qwen's attention, a mixture in place of the MLP.

Keys and defaults: Qwen2MoeConfig, Qwen3MoeConfig and Qwen3VLMoeTextConfig of transformers 5.24.
"""

from phasewise.model.architecture import Architecture
from phasewise.model.families.family import Family, decoder
from phasewise.model.families.moe import MOE, by_step, experts
from phasewise.model.families.qwen import windows
from phasewise.model.keys import Keys


def _qwen2(keys: Keys) -> Architecture:
    moe = experts(keys, shared=keys.count("shared_expert_intermediate_size"), shared_gate=True)
    return decoder(
        keys, "qwen2-moe", tied=False, windows=windows, qkv_bias=keys.flag("qkv_bias", True), mlp=by_step(keys, moe)
    )


def _qwen3(keys: Keys) -> Architecture:
    bias = keys.flag("attention_bias")
    return decoder(
        keys,
        "qwen3-moe",
        tied=False,
        windows=windows,
        qkv_bias=bias,
        output_bias=bias,
        qk_norm="per head",
        mlp=by_step(keys, experts(keys)),
    )


QWEN2_MOE = Family(
    name="qwen2-moe",
    model_types=("qwen2_moe",),
    classes=("Qwen2MoeForCausalLM",),
    build=_qwen2,
    kinds=(MOE,),
    gguf=("qwen2moe",),
)

QWEN3_MOE = Family(
    name="qwen3-moe",
    model_types=("qwen3_moe",),
    classes=("Qwen3MoeForCausalLM",),
    build=_qwen3,
    kinds=(MOE,),
    gguf=("qwen3moe", "qwen3vlmoe"),
)

QWEN3_VL_MOE = Family(
    name="qwen3-vl-moe",
    model_types=("qwen3_vl_moe_text",),
    classes=(),
    build=_qwen3,
    nested={
        "vocab_size": 151936,
        "hidden_size": 2048,
        "intermediate_size": 5632,
        "num_hidden_layers": 24,
        "num_attention_heads": 16,
        "num_key_value_heads": 16,
        "max_position_embeddings": 128000,
        "moe_intermediate_size": 1408,
        "num_experts_per_tok": 4,
        "num_experts": 60,
    },
    kinds=(MOE,),
)
