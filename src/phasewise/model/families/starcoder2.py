"""StarCoder2: LayerNorm, biases everywhere, a plain MLP, a tied head.

Keys and defaults: Starcoder2Config of transformers 5.24.
"""

from phasewise.model.architecture import Architecture
from phasewise.model.families.family import Family, Windows, decoder, sliding
from phasewise.model.keys import Keys


def _starcoder2(keys: Keys) -> Architecture:
    bias = keys.flag("use_bias", True)
    return decoder(
        keys,
        "starcoder2",
        tied=True,
        windows=_windows,
        qkv_bias=bias,
        output_bias=bias,
        mlp_bias=bias,
        gated=False,
        norm_bias=True,
    )


def _windows(keys: Keys, layers: int) -> Windows:
    return sliding(keys, layers, lambda layer: True)


STARCODER2 = Family(
    name="starcoder2",
    model_types=("starcoder2",),
    classes=("Starcoder2ForCausalLM",),
    build=_starcoder2,
    gguf=("starcoder2",),
    full_every=0,
)
