"""Llama 4: attention in chunks but for every fourth layer, one of the experts for each token beside a shared one.

Keys and defaults: Llama4TextConfig of transformers 5.24. ``intermediate_size`` is the experts',
``intermediate_size_mlp`` that of dense layers; ``use_qk_norm`` has no weights.
"""

import msgspec

from phasewise.model.architecture import Architecture, Mlp
from phasewise.model.families.family import Family, architecture, attention, layers
from phasewise.model.families.moe import MOE, experts
from phasewise.model.keys import LAYERS, Keys
from phasewise.model.parts import Layer

_CHUNK = 8192


def _llama4(keys: Keys) -> Architecture:
    count, hidden = layers(keys), keys.count("hidden_size")
    bias = keys.flag("attention_bias")
    full = attention(keys, qkv_bias=bias, output_bias=bias, head_dim=128)
    chunk = keys.optional("attention_chunk_size") if "attention_chunk_size" in keys.values else _CHUNK
    local = msgspec.structs.replace(full, chunk=chunk)
    types = keys.words("layer_types", count, ("chunked_attention", "full_attention")) or _types(keys, count)
    moe = experts(
        keys,
        count="num_local_experts",
        intermediate="intermediate_size",
        shared=keys.count("intermediate_size"),
    )
    step = keys.optional("interleave_moe_layer_step", LAYERS) or 1
    mixed = set(keys.numbers("moe_layers") or range(step - 1, count, step))
    dense = Mlp(intermediate=keys.count("intermediate_size_mlp"))
    stacked: list[Layer] = [
        (local if kind == "chunked_attention" else full, moe if number in mixed else dense, 2 * hidden)
        for number, kind in enumerate(types)
    ]
    return architecture(keys, "llama4", stacked, tied=False)


def _types(keys: Keys, count: int) -> list[str]:
    every = keys.optional("no_rope_layer_interval", LAYERS) or 4
    rope = keys.numbers("no_rope_layers") or [int((layer + 1) % every != 0) for layer in range(count)]
    if len(rope) < count:
        raise keys.error("no_rope_layers", f"must have a number for each of {count} layers")
    return ["chunked_attention" if uses else "full_attention" for uses in rope[:count]]


LLAMA4 = Family(
    name="llama4",
    model_types=("llama4_text",),
    classes=("Llama4ForCausalLM",),
    build=_llama4,
    nested={
        "vocab_size": 202048,
        "hidden_size": 5120,
        "intermediate_size": 8192,
        "intermediate_size_mlp": 16384,
        "num_hidden_layers": 48,
        "num_attention_heads": 40,
        "num_key_value_heads": 8,
        "max_position_embeddings": 131072,
        "num_experts_per_tok": 1,
        "num_local_experts": 16,
    },
    kinds=(MOE,),
)
