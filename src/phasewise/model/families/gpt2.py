"""GPT-2, StarCoder 1 and SantaCoder, GPT-J: LayerNorm, plain MLPs, learned positions (GPT-J: rotary, one norm a layer).

Keys and defaults: GPT2Config, GPTBigCodeConfig and GPTJConfig of transformers 5.24.
"""

import msgspec

from phasewise.model.architecture import Architecture, Mlp
from phasewise.model.families.family import Family, architecture, attention, layers
from phasewise.model.keys import Keys
from phasewise.model.parts import Layer

_ALIASES = {
    "hidden_size": "n_embd",
    "max_position_embeddings": "n_positions",
    "num_attention_heads": "n_head",
    "num_hidden_layers": "n_layer",
}


def _mlp(keys: Keys) -> Mlp:
    return Mlp(intermediate=keys.optional("n_inner") or 4 * keys.count("hidden_size"), gated=False, bias=True)


def _gpt2(keys: Keys) -> Architecture:
    return _shape(keys, "gpt2", keys.count("num_attention_heads"))


def _bigcode(keys: Keys) -> Architecture:
    return _shape(keys, "gpt-bigcode", 1 if keys.flag("multi_query", True) else keys.count("num_attention_heads"))


def _shape(keys: Keys, family: str, kv_heads: int) -> Architecture:
    hidden = keys.count("hidden_size")
    mixer = msgspec.structs.replace(attention(keys, qkv_bias=True, output_bias=True, grouped=False), kv_heads=kv_heads)
    stacked: list[Layer] = [(mixer, _mlp(keys), 4 * hidden)] * layers(keys)
    positions = keys.count("max_position_embeddings") * hidden
    return architecture(keys, family, stacked, tied=True, final_norm=2 * hidden, positions=positions)


def _gptj(keys: Keys) -> Architecture:
    hidden, vocab = keys.count("hidden_size"), keys.count("vocab_size")
    stacked: list[Layer] = [(attention(keys, grouped=False), _mlp(keys), 2 * hidden)] * layers(keys)
    return architecture(keys, "gpt-j", stacked, tied=False, final_norm=2 * hidden, head_extra=vocab)


GPT2 = Family(
    name="gpt2",
    model_types=("gpt2",),
    classes=("GPT2LMHeadModel",),
    build=_gpt2,
    fill={"max_position_embeddings": 1024},
    aliases=_ALIASES,
)

GPT_BIGCODE = Family(
    name="gpt-bigcode",
    model_types=("gpt_bigcode",),
    classes=("GPTBigCodeForCausalLM",),
    build=_bigcode,
    fill={"max_position_embeddings": 1024, "multi_query": True},
    aliases=_ALIASES,
)

GPTJ = Family(name="gpt-j", model_types=("gptj",), classes=("GPTJForCausalLM",), build=_gptj, aliases=_ALIASES)
