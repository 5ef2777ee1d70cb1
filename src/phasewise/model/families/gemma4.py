"""Gemma 4: wider heads in full layers, keys that serve as values, layers that share a cache, a table per layer.

Keys and defaults: Gemma4TextConfig of transformers 5.24. In the mixture an MLP works beside the experts.
"""

import msgspec

from phasewise.model.architecture import Architecture, Attention, Mlp
from phasewise.model.families.family import Family, architecture, attention, layers
from phasewise.model.families.moe import MOE, experts
from phasewise.model.keys import LAYERS, Keys
from phasewise.model.parts import FeedForward, Layer

SHARED = "layers that share their KV cache"


def _gemma4(keys: Keys) -> Architecture:
    count, hidden = layers(keys), keys.count("hidden_size")
    kinds = keys.words("layer_types", count, ("full_attention", "sliding_attention")) or [
        "sliding_attention" if (layer + 1) % 6 else "full_attention" for layer in range(count)
    ]
    kinds = [*kinds[:-1], "full_attention"]
    shared = keys.optional("num_kv_shared_layers", LAYERS, least=0) or 0
    per_layer = keys.optional("hidden_size_per_layer_input", least=0)
    per_layer = 256 if per_layer is None else per_layer
    moe = keys.flag("enable_moe_block")
    # Norms; a gate to the layer's own input and back, with a norm; three more norms beside a mixture.
    norms = (4 + (3 if moe else 0)) * hidden + (2 * per_layer * hidden + hidden if per_layer else 0)
    stacked: list[Layer] = []
    for number, kind in enumerate(kinds):
        reuses = number >= count - shared
        stacked.append((_attention(keys, kind, reuses), _mlp(keys, moe, reuses), norms))
    outside = count * per_layer * hidden + per_layer if per_layer else 0
    rows = keys.optional("vocab_size_per_layer_input") or 262_144
    return architecture(
        keys,
        "gemma4",
        stacked,
        tied=True,
        final_norm=hidden + outside,
        embedding_extra=rows * count * per_layer,
    )


def _attention(keys: Keys, kind: str, reuses: bool) -> Attention:
    bias = keys.flag("attention_bias")
    near = attention(keys, qkv_bias=bias, output_bias=bias, head_dim=256, window=keys.optional("sliding_window") or 512)
    if kind == "full_attention":
        same = keys.flag("attention_k_eq_v")
        wide = keys.optional("global_head_dim") or 512
        kv_heads = (keys.optional("num_global_key_value_heads") if same else None) or near.kv_heads
        if near.heads % kv_heads:
            raise keys.error("num_global_key_value_heads", f"must divide num_attention_heads ({near.heads})")
        near = msgspec.structs.replace(near, head_dim=wide, kv_heads=kv_heads, window=None, shared_key_value=same)
    norms = near.head_dim if reuses else 2 * near.head_dim
    return msgspec.structs.replace(near, own_kv=not reuses, qk_norm=norms)


def _mlp(keys: Keys, moe: bool, reuses: bool) -> FeedForward:
    units = keys.count("intermediate_size") * (2 if reuses and keys.flag("use_double_wide_mlp") else 1)
    if not moe:
        return Mlp(intermediate=units)
    scales = keys.count("hidden_size") + keys.count("num_experts", 100_000)
    return experts(keys, chosen="top_k_experts", shared=units, router_extra=scales)


GEMMA4 = Family(
    name="gemma4",
    model_types=("gemma4_text",),
    classes=("Gemma4ForCausalLM",),
    build=_gemma4,
    nested={
        "vocab_size": 262_144,
        "hidden_size": 2304,
        "intermediate_size": 9216,
        "num_hidden_layers": 30,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "max_position_embeddings": 131_072,
    },
    kinds=(MOE, SHARED),
)
