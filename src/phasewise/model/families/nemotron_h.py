"""Nemotron-H and Nemotron 3: one mixer or one feed-forward network per layer, by a pattern of letters.

Keys and defaults: NemotronHConfig of transformers 5.24.
"""

from phasewise.model.architecture import Architecture, Mlp
from phasewise.model.families.family import Family, architecture, attention, layers
from phasewise.model.families.moe import MOE, experts
from phasewise.model.families.qwen_next import LINEAR, MIXED
from phasewise.model.keys import Keys
from phasewise.model.mixers.mamba import mamba2
from phasewise.model.parts import Layer, NoFeedForward, NoMixer

_LETTERS = {"M": "linear_attention", "*": "full_attention", "E": "moe", "-": "mlp"}
_NAMES = {"mamba": "linear_attention", "attention": "full_attention", **{kind: kind for kind in _LETTERS.values()}}


_EXPERTS = (
    "n_routed_experts",
    "n_shared_experts",
    "num_experts_per_tok",
    "moe_intermediate_size",
    "moe_shared_expert_intermediate_size",
)


def _nemotron_h(keys: Keys) -> Architecture:
    for name in _EXPERTS:  # a pattern without a mixture has no use for them
        keys.get(name)
    hidden, kinds = keys.count("hidden_size"), _kinds(keys)
    layer = {kind: _layer(keys, kind, hidden) for kind in set(kinds)}
    return architecture(keys, "nemotron-h", [layer[kind] for kind in kinds], tied=False)


def _kinds(keys: Keys) -> list[str]:
    pattern, count = keys.get("hybrid_override_pattern"), layers(keys)
    if pattern is None:
        named = keys.words("layer_types", count, _NAMES) or keys.words("layers_block_type", count, _NAMES)
        if named is None:
            raise keys.error("hybrid_override_pattern", "must say what each layer is")
        return [_NAMES[kind] for kind in named]
    if not isinstance(pattern, str) or not set(pattern) <= set(_LETTERS) or len(pattern) != count:
        raise keys.error("hybrid_override_pattern", f"must be {count} letters of {' '.join(_LETTERS)}")
    return [_LETTERS[letter] for letter in pattern]


def _layer(keys: Keys, kind: str, hidden: int) -> Layer:
    if kind == "linear_attention":
        mixer = mamba2(
            hidden,
            keys.count("mamba_num_heads"),
            keys.count("mamba_head_dim"),
            keys.count("ssm_state_size"),
            keys.count("n_groups"),
            keys.count("conv_kernel"),
            conv_bias=keys.flag("use_conv_bias", True),
            bias=keys.flag("mamba_proj_bias"),
            state_bytes=4.0 if keys.get("mamba_ssm_cache_dtype") in (None, "float32") else 2.0,
        )
        return mixer, NoFeedForward(), hidden
    if kind == "full_attention":
        return attention(keys, head_dim=128), NoFeedForward(), hidden
    if kind == "mlp":
        mlp = Mlp(intermediate=keys.count("intermediate_size"), gated=False, bias=keys.flag("mlp_bias"))
        return NoMixer(), mlp, hidden
    moe = experts(
        keys,
        count="n_routed_experts",
        gated=False,
        width=keys.optional("moe_latent_size"),
        shared=keys.count("moe_shared_expert_intermediate_size") * (keys.optional("n_shared_experts", least=0) or 0),
        shared_gated=False,
        shared_bias=keys.flag("mlp_bias"),
    )
    return NoMixer(), moe, hidden


NEMOTRON_H = Family(
    name="nemotron-h",
    model_types=("nemotron_h",),
    classes=("NemotronHForCausalLM",),
    build=_nemotron_h,
    kinds=(MOE, LINEAR, MIXED),
)
