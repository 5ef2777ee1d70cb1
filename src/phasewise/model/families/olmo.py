"""OLMo 2 and 3: norms after attention and MLP, query and key norms over all heads; in OLMo 3 most layers slide.

Keys and defaults: Olmo2Config and Olmo3Config of transformers 5.24.
"""

from phasewise.model.architecture import Architecture
from phasewise.model.families.family import Family, Windows, decoder, sliding
from phasewise.model.keys import Keys


def _olmo2(keys: Keys) -> Architecture:
    bias = keys.flag("attention_bias")
    return decoder(keys, "olmo2", tied=False, qkv_bias=bias, output_bias=bias, qk_norm="all heads")


def _olmo3(keys: Keys) -> Architecture:
    bias = keys.flag("attention_bias")
    return decoder(keys, "olmo3", tied=False, windows=_windows, qkv_bias=bias, output_bias=bias, qk_norm="all heads")


def _windows(keys: Keys, layers: int) -> Windows:
    return sliding(keys, layers, lambda layer: (layer + 1) % 4 != 0, absent=4096)


OLMO2 = Family(
    name="olmo2",
    model_types=("olmo2",),
    classes=("Olmo2ForCausalLM",),
    build=_olmo2,
    # OLMo 3 is stored as olmo2 with a window; without one the rule has no effect.
    gguf=("olmo2",),
    full_every=4,
)

OLMO3 = Family(name="olmo3", model_types=("olmo3",), classes=("Olmo3ForCausalLM",), build=_olmo3)
