"""Kimi Linear and the text of Kimi K3: Kimi delta attention with latent attention between, latent experts.

Keys and defaults: KimiLinearConfig of transformers 5.24. K3's own keys (``routed_expert_hidden_size``,
``use_full_rank_gate``, ``mla_use_output_gate``) are read as their names say: no public code of it was at hand.
"""

import msgspec

from phasewise.model.architecture import Architecture
from phasewise.model.families.deepseek import LATENT, latent
from phasewise.model.families.family import Family, architecture, layers
from phasewise.model.families.moe import MOE, after_dense, experts
from phasewise.model.families.qwen_next import LINEAR
from phasewise.model.keys import Keys
from phasewise.model.mixers.delta import kimi_delta
from phasewise.model.parts import Layer, Mixer


def _kimi(keys: Keys) -> Architecture:
    count, hidden = layers(keys), keys.count("hidden_size")
    full = latent(keys)
    if keys.flag("mla_use_output_gate"):
        full = msgspec.structs.replace(full, gate=hidden * full.heads * full.value)
    width = keys.optional("routed_expert_hidden_size")
    moe = experts(
        keys,
        chosen="num_experts_per_token",
        width=width,
        shared=(keys.optional("num_shared_experts", least=0) or 0) * keys.count("moe_intermediate_size"),
        extra=width if width and keys.flag("latent_moe_use_norm") else 0,
    )
    mlp = after_dense(keys, moe, default=1)
    kinds = _kinds(keys, count)
    mixers: dict[str, Mixer] = {"full_attention": full, "linear_attention": _delta(keys)}
    stacked: list[Layer] = [(mixers[kind], mlp(number), 2 * hidden) for number, kind in enumerate(kinds)]
    shape = architecture(keys, "kimi-linear", stacked, tied=False, context="max_position_embeddings")
    if keys.get("attn_res_block_size") is None:
        return shape
    return msgspec.structs.replace(
        shape, not_modelled=("attn_res_block_size: residuals between blocks of layers, which cost next to nothing",)
    )


def _delta(keys: Keys) -> Mixer:
    inside = keys.part("linear_attn_config")
    return kimi_delta(
        keys.count("hidden_size"),
        inside.optional("num_heads") or keys.optional("linear_num_heads") or 32,
        inside.optional("head_dim") or keys.optional("linear_head_dim") or 128,
        inside.optional("short_conv_kernel_size") or keys.optional("linear_conv_kernel_dim") or 4,
        full_rank_gate=inside.flag("use_full_rank_gate"),
    )


def _kinds(keys: Keys, count: int) -> list[str]:
    """``layer_types``, or the layers that ``linear_attn_config`` lists, counted from 1, or every fourth."""
    inside = keys.part("linear_attn_config")
    full = inside.numbers("full_attn_layers")
    if full is not None:
        return ["full_attention" if number + 1 in set(full) else "linear_attention" for number in range(count)]
    return keys.words("layer_types", count, ("full_attention", "linear_attention")) or [
        "full_attention" if number and number % 4 == 0 else "linear_attention" for number in range(count)
    ]


KIMI_LINEAR = Family(
    name="kimi-linear",
    model_types=("kimi_linear",),
    classes=("KimiLinearForCausalLM",),
    build=_kimi,
    aliases={
        "num_experts": "num_local_experts",
        "num_experts_per_token": "num_experts_per_tok",
        "num_shared_experts": "n_shared_experts",
        "max_position_embeddings": "model_max_length",
    },
    kinds=(MOE, LATENT, LINEAR),
)
