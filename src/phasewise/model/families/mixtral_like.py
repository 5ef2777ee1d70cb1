"""Mixtures that differ from Mixtral in a norm, a bias or what they share: OLMoE, Phi-3.5-MoE, Granite MoE, ERNIE 4.5.

Keys and defaults: OlmoeConfig, PhimoeConfig, GraniteMoeConfig and Ernie4_5_MoeConfig of transformers 5.24.
"""

from phasewise.model.architecture import Architecture, Mlp
from phasewise.model.families.family import Family, decoder, layers
from phasewise.model.families.moe import MOE, experts
from phasewise.model.keys import LAYERS, Keys
from phasewise.model.parts import FeedForward


def _olmoe(keys: Keys) -> Architecture:
    bias, moe = keys.flag("attention_bias"), experts(keys, intermediate="intermediate_size")
    return decoder(
        keys, "olmoe", tied=False, qkv_bias=bias, output_bias=bias, qk_norm="all heads", mlp=lambda layer: moe
    )


def _phimoe(keys: Keys) -> Architecture:
    bias = keys.flag("attention_bias")
    moe = experts(keys, count="num_local_experts", intermediate="intermediate_size")
    return decoder(
        keys,
        "phi-moe",
        tied=False,
        windows=lambda keys, count: (keys.optional("sliding_window"),) * count,
        qkv_bias=bias,
        output_bias=bias,
        norm_bias=True,
        mlp=lambda layer: moe,
        head_extra=keys.count("vocab_size") if keys.flag("lm_head_bias") else 0,
    )


def _granitemoe(keys: Keys) -> Architecture:
    bias = keys.flag("attention_bias")
    moe = experts(
        keys,
        count="num_local_experts",
        intermediate="intermediate_size",
        shared=keys.optional("shared_intermediate_size", least=0) or 0,
    )
    return decoder(keys, "granite-moe", tied=False, qkv_bias=bias, output_bias=bias, mlp=lambda layer: moe)


def _ernie(keys: Keys) -> Architecture:
    bias, count = keys.flag("use_bias"), layers(keys)
    moe = experts(
        keys,
        shared=(keys.optional("moe_num_shared_experts", least=0) or 0) * keys.count("moe_intermediate_size"),
        shared_bias=bias,
        router_extra=keys.count("num_experts", 100_000),  # a correction that evens out their load
    )
    dense = Mlp(intermediate=keys.count("intermediate_size"), bias=bias)
    first = keys.optional("moe_layer_start_index", LAYERS, least=0)
    first, every = 1 if first is None else first, keys.optional("moe_layer_interval", LAYERS) or 1
    last = keys.optional("moe_layer_end_index", LAYERS, least=-1)
    last = count - 1 if last is None or last < 0 else last

    def mlp(layer: int) -> FeedForward:
        return moe if first <= layer <= last and (layer + 1) % every == 0 else dense

    return decoder(
        keys,
        "ernie-4.5-moe",
        tied=True,
        qkv_bias=bias,
        output_bias=bias,
        mlp=mlp,
        head_extra=keys.count("vocab_size") if bias else 0,
    )


OLMOE = Family(name="olmoe", model_types=("olmoe",), classes=("OlmoeForCausalLM",), build=_olmoe, kinds=(MOE,))
PHIMOE = Family(name="phi-moe", model_types=("phimoe",), classes=("PhimoeForCausalLM",), build=_phimoe, kinds=(MOE,))
GRANITE_MOE = Family(
    name="granite-moe",
    model_types=("granitemoe", "granitemoeshared"),
    classes=("GraniteMoeForCausalLM", "GraniteMoeSharedForCausalLM"),
    build=_granitemoe,
    kinds=(MOE,),
)
ERNIE_MOE = Family(
    name="ernie-4.5-moe",
    model_types=("ernie4_5_moe",),
    classes=("Ernie4_5_MoeForCausalLM",),
    build=_ernie,
    aliases={"num_experts": "moe_num_experts", "num_experts_per_tok": "moe_k"},
    kinds=(MOE,),
)
