"""OPT: LayerNorm, biases, ReLU, learned positions with an offset of two.

Keys and defaults: OPTConfig of transformers 5.24.
"""

from phasewise.model.architecture import Architecture, Mlp
from phasewise.model.families.family import Family, architecture, attention, layers
from phasewise.model.keys import Keys
from phasewise.model.parts import Layer


def _opt(keys: Keys) -> Architecture:
    hidden, bias = keys.count("hidden_size"), keys.flag("enable_bias", True)
    width = keys.optional("word_embed_proj_dim") or hidden
    norm = 2 * hidden if keys.flag("layer_norm_elementwise_affine", True) else 0
    mlp = Mlp(intermediate=keys.count("ffn_dim"), gated=False, bias=bias)
    mixer = attention(keys, qkv_bias=bias, output_bias=bias, grouped=False)
    stacked: list[Layer] = [(mixer, mlp, 2 * norm)] * layers(keys)
    ends = keys.flag("do_layer_norm_before", True) and not keys.flag("_remove_final_layer_norm")
    return architecture(
        keys,
        "opt",
        stacked,
        tied=True,
        final_norm=norm if ends else 0,
        positions=(keys.count("max_position_embeddings") + 2) * hidden,
        embedding_width=None if width == hidden else width,
    )


OPT = Family(
    name="opt", model_types=("opt",), classes=("OPTForCausalLM",), build=_opt, fill={"max_position_embeddings": 2048}
)
