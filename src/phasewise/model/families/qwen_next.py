"""Qwen3-Next and Qwen3.5: three layers of GatedDeltaNet to one of gated attention, with a mixture or an MLP.

Keys and defaults: Qwen3NextConfig, Qwen3_5TextConfig and Qwen3_5MoeTextConfig of transformers 5.24.
"""

from collections.abc import Callable

import msgspec

from phasewise.model.architecture import Architecture, Mlp
from phasewise.model.families.family import Family, architecture, attention, layers
from phasewise.model.families.moe import MOE, by_step, experts
from phasewise.model.keys import LAYERS, Keys
from phasewise.model.mixers.delta import gated_delta_net
from phasewise.model.parts import FeedForward, Layer, Mixer

LINEAR, MIXED, GATED = "state-space or linear attention layers", "layers of mixed kinds", "gated attention"


def _moe(keys: Keys) -> Architecture:
    shared = keys.optional("shared_expert_intermediate_size", least=0) or 0
    return _shape(keys, "qwen3-next", by_step(keys, experts(keys, shared=shared, shared_gate=True)))


def _dense(keys: Keys) -> Architecture:
    mlp = Mlp(intermediate=keys.count("intermediate_size"))
    return _shape(keys, "qwen3.5", lambda layer: mlp)


def _shape(keys: Keys, family: str, mlp: Callable[[int], FeedForward]) -> Architecture:
    count, hidden = layers(keys), keys.count("hidden_size")
    types = keys.words("layer_types", count, ("linear_attention", "full_attention"))
    if types is None:
        every = keys.optional("full_attention_interval", LAYERS) or 4
        types = ["linear_attention" if (layer + 1) % every else "full_attention" for layer in range(count)]
    bias = keys.flag("attention_bias")
    full = attention(keys, qkv_bias=bias, output_bias=bias, qk_norm="per head", head_dim=256, gated=True)
    if bias:
        full = msgspec.structs.replace(full, gate=full.gate + full.heads * full.head_dim)
    mixers: dict[str, Mixer] = {"full_attention": full, "linear_attention": _linear(keys)}
    stacked: list[Layer] = [(mixers[kind], mlp(number), 2 * hidden) for number, kind in enumerate(types)]
    shape = architecture(keys, family, stacked, tied=False)
    own = keys.flag("mtp_use_dedicated_embeddings")
    ahead = keys.optional("mtp_num_hidden_layers", LAYERS, least=0) or 0
    layer = sum(full.parameters(hidden).values()) + sum(mlp(count - 1).parameters(hidden).values()) + 2 * hidden
    tables = 2 * shape.vocab * hidden if own else 0
    return msgspec.structs.replace(
        shape, prediction=ahead and ahead * layer + 2 * hidden * hidden + 3 * hidden + tables
    )


def _linear(keys: Keys) -> Mixer:
    key_heads, value_heads = keys.count("linear_num_key_heads"), keys.count("linear_num_value_heads")
    if value_heads % key_heads:
        raise keys.error("linear_num_value_heads", f"must be a multiple of linear_num_key_heads ({key_heads})")
    return gated_delta_net(
        keys.count("hidden_size"),
        key_heads,
        value_heads,
        keys.count("linear_key_head_dim"),
        keys.count("linear_value_head_dim"),
        keys.count("linear_conv_kernel_dim"),
        2.0 if keys.get("mamba_ssm_dtype") in ("bfloat16", "float16") else 4.0,
    )


def _convention(shape: Architecture) -> str:
    return f"the publisher's 3e9 active leaves out both embedding tables: {shape.non_embedding / 1e9:.2f}e9"


_LINEAR_DEFAULTS = {
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
}

QWEN3_NEXT = Family(
    name="qwen3-next",
    model_types=("qwen3_next",),
    classes=("Qwen3NextForCausalLM",),
    build=_moe,
    kinds=(MOE, LINEAR, MIXED, GATED),
    convention=_convention,
)

QWEN3_5 = Family(
    name="qwen3.5",
    model_types=("qwen3_5_text",),
    classes=(),
    build=_dense,
    nested={
        "vocab_size": 248320,
        "hidden_size": 4096,
        "intermediate_size": 12288,
        "num_hidden_layers": 32,
        "num_attention_heads": 16,
        "num_key_value_heads": 4,
        "max_position_embeddings": 32768,
        **_LINEAR_DEFAULTS,
    },
    kinds=(LINEAR, MIXED, GATED),
)

QWEN3_5_MOE = Family(
    name="qwen3.5-moe",
    model_types=("qwen3_5_moe_text",),
    classes=(),
    build=_moe,
    nested={
        "vocab_size": 248320,
        "hidden_size": 2048,
        "num_hidden_layers": 40,
        "num_attention_heads": 16,
        "num_key_value_heads": 2,
        "max_position_embeddings": 32768,
        "moe_intermediate_size": 512,
        "shared_expert_intermediate_size": 512,
        "num_experts_per_tok": 8,
        "num_experts": 256,
        **_LINEAR_DEFAULTS,
    },
    kinds=(MOE, LINEAR, MIXED, GATED),
)
