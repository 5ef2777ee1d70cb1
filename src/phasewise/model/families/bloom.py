"""BLOOM: ALiBi in place of positions, biases, a norm on the embedding.

Keys and defaults: BloomConfig of transformers 5.24. Its MLP is four times as wide as the model.
"""

from phasewise.model.architecture import Architecture, Mlp
from phasewise.model.families.family import Family, architecture, attention, layers
from phasewise.model.keys import Keys
from phasewise.model.parts import Layer


def _bloom(keys: Keys) -> Architecture:
    hidden = keys.count("hidden_size")
    mixer = attention(keys, qkv_bias=True, output_bias=True, grouped=False)
    mlp = Mlp(intermediate=4 * hidden, gated=False, bias=True)
    stacked: list[Layer] = [(mixer, mlp, 4 * hidden)] * layers(keys)
    return architecture(keys, "bloom", stacked, tied=True, final_norm=4 * hidden, context="seq_length")


BLOOM = Family(
    name="bloom",
    model_types=("bloom",),
    classes=("BloomForCausalLM",),
    build=_bloom,
    aliases={"num_hidden_layers": "n_layer", "num_attention_heads": "n_head", "hidden_size": "n_embed"},
)
