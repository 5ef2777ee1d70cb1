"""Step 3.5 and 3.7 Flash: gates per head, more heads in layers that slide, experts by ``moe_layers_enum``.

Keys and defaults: Step3p7TextConfig of transformers 5.24, and the published file's own names. Lists of layers may be
longer than the layers: what follows are prediction layers.
"""

import msgspec

from phasewise.model.architecture import Architecture, Attention, Mlp
from phasewise.model.families.family import Family, architecture, attention, layers
from phasewise.model.families.moe import MOE, experts
from phasewise.model.keys import MOST, Keys
from phasewise.model.parts import Layer


def _step(keys: Keys) -> Architecture:
    count, hidden = layers(keys), keys.count("hidden_size")
    bias = keys.flag("attention_bias")
    full = _gated(keys, attention(keys, qkv_bias=bias, output_bias=bias, qk_norm="per head", head_dim=128), hidden)
    other = keys.part("attention_other_setting")
    heads = keys.optional("num_sliding_attention_heads") or other.optional("num_attention_heads") or full.heads
    kv_heads = other.optional("num_attention_groups") or full.kv_heads
    if heads % kv_heads:
        raise keys.error("num_sliding_attention_heads", f"must be a multiple of {kv_heads} key and value heads")
    near = msgspec.structs.replace(full, heads=heads, kv_heads=kv_heads, window=keys.optional("sliding_window"))
    near = _gated(keys, near, hidden)
    kinds = _kinds(keys, count)
    mixed = _mixed(keys, count)
    moe = experts(keys, count="n_routed_experts", shared=keys.count("share_expert_dim"))
    dense = Mlp(intermediate=keys.count("intermediate_size"), bias=keys.flag("mlp_bias"))
    stacked: list[Layer] = [
        (near if kinds[n] == "sliding_attention" else full, moe if n in mixed else dense, 2 * hidden)
        for n in range(count)
    ]
    return architecture(keys, "step-3.5", stacked, tied=False)


def _gated(keys: Keys, mixer: Attention, hidden: int) -> Attention:
    """A gate per head."""
    return msgspec.structs.replace(mixer, gate=hidden * mixer.heads)


def _kinds(keys: Keys, count: int) -> list[str]:
    named = keys.get("layer_types")
    if named is None:
        return ["full_attention"] * count
    if not isinstance(named, list) or len(named) < count:
        raise keys.error("layer_types", f"must be a list of {count} names")
    return (
        Keys({"layer_types": named[:count]}, keys.where).words(
            "layer_types", count, ("full_attention", "sliding_attention")
        )
        or ["full_attention"] * count
    )


def _mixed(keys: Keys, count: int) -> set[int]:
    named, listed = keys.get("mlp_layer_types"), keys.get("moe_layers_enum")
    if isinstance(named, list) and len(named) >= count:
        return {number for number, kind in enumerate(named[:count]) if kind == "sparse"}
    if isinstance(listed, str):
        parts = [part.strip() for part in listed.split(",")]
        if not all(part.isdecimal() and int(part) < MOST for part in parts):
            raise keys.error("moe_layers_enum", "must be numbers of layers")
        return {int(part) for part in parts}
    return set(keys.numbers("moe_layers_enum") or range(3, count))


STEP = Family(
    name="step-3.5",
    model_types=("step3p5",),
    classes=("Step3p5ForCausalLM",),
    build=_step,
    nested={
        "vocab_size": 128815,
        "hidden_size": 4096,
        "intermediate_size": 11264,
        "num_hidden_layers": 45,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "max_position_embeddings": 128000,
        "num_experts_per_tok": 8,
        "n_routed_experts": 288,
        "moe_intermediate_size": 1280,
        "share_expert_dim": 1280,
    },
    aliases={
        "num_key_value_heads": "num_attention_groups",
        "n_routed_experts": "moe_num_experts",
        "num_experts_per_tok": "moe_top_k",
        "share_expert_dim": "share_expert_dims",
    },
    kinds=(MOE,),
)
