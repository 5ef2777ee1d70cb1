"""MiMo-V2-Flash: values narrower than keys; most layers slide, with sinks and twice the key and value heads.

Keys and defaults: MiMoV2FlashConfig of transformers 5.24, and the published file's own names (``hybrid_layer_pattern``,
``swa_*``, ``sliding_window_size``).
"""

import msgspec

from phasewise.model.architecture import Architecture, Mlp
from phasewise.model.families.family import Family, architecture, attention, layers
from phasewise.model.families.moe import MOE, experts
from phasewise.model.families.qwen_next import MIXED
from phasewise.model.keys import Keys
from phasewise.model.parts import Layer


def _mimo(keys: Keys) -> Architecture:
    count, hidden = layers(keys), keys.count("hidden_size")
    full = attention(
        keys, qkv_bias=keys.flag("attention_bias"), head_dim=192, value_dim=keys.optional("v_head_dim") or 128
    )
    size = keys.optional("sliding_window_size")
    heads = keys.optional("swa_num_attention_heads") or full.heads
    kv_heads = keys.optional("swa_num_key_value_heads") or 2 * full.kv_heads
    if heads % kv_heads:
        raise keys.error("swa_num_key_value_heads", f"must divide the {heads} heads")
    near = msgspec.structs.replace(
        full,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=keys.optional("swa_head_dim") or full.head_dim,
        value_dim=keys.optional("swa_v_head_dim") or full.value_dim,
        window=size + 1 if size else keys.optional("sliding_window") or 129,
        sinks=keys.flag("add_swa_attention_sink_bias", True),
    )
    moe = experts(
        keys,
        count="n_routed_experts",
        shared=(keys.optional("n_shared_experts", least=0) or 0) * keys.count("moe_intermediate_size"),
    )
    dense = Mlp(intermediate=keys.count("intermediate_size"))
    mixes = keys.numbers("moe_layer_freq", count) or [0] + [1] * (count - 1)
    mixed = keys.words("mlp_layer_types", count, ("dense", "sparse")) or ["sparse" if n else "dense" for n in mixes]
    slides = keys.numbers("hybrid_layer_pattern", count) or [
        int(layer > 0 and (layer + 1) % 6 != 0) for layer in range(count)
    ]
    kinds = keys.words("layer_types", count, ("full_attention", "sliding_attention")) or [
        "sliding_attention" if n else "full_attention" for n in slides
    ]
    stacked: list[Layer] = [
        (
            near if kinds[n] == "sliding_attention" else full,
            moe if mixed[n] == "sparse" else dense,
            2 * hidden,
        )
        for n in range(count)
    ]
    return architecture(keys, "mimo-v2", stacked, tied=False)


MIMO = Family(
    name="mimo-v2",
    model_types=("mimo_v2_flash",),
    classes=("MiMoV2FlashForCausalLM",),
    build=_mimo,
    kinds=(MOE, MIXED),
)
