"""Command R and R7B: LayerNorm without biases, one norm a layer, a tied head; from Cohere 2 on windows alternate.

Keys and defaults: CohereConfig and Cohere2Config of transformers 5.24.
"""

from phasewise.model.architecture import Architecture
from phasewise.model.families.family import Family, Windows, decoder, sliding
from phasewise.model.keys import LAYERS, Keys


def _cohere(keys: Keys) -> Architecture:
    bias = keys.flag("attention_bias")
    normed = keys.flag("use_qk_norm")
    return decoder(
        keys,
        "cohere",
        tied=True,
        qkv_bias=bias,
        output_bias=bias,
        norms=1,
        qk_norm="all heads" if normed else "no",
    )


def _cohere2(keys: Keys) -> Architecture:
    bias = keys.flag("attention_bias")
    return decoder(keys, "cohere2", tied=True, windows=_windows, qkv_bias=bias, output_bias=bias, norms=1)


def _windows(keys: Keys, layers: int) -> Windows:
    period = keys.optional("sliding_window_pattern", LAYERS) or 4
    return sliding(keys, layers, lambda layer: (layer + 1) % period != 0, absent=4096)


COHERE = Family(name="cohere", model_types=("cohere",), classes=("CohereForCausalLM",), build=_cohere)

COHERE2 = Family(name="cohere2", model_types=("cohere2",), classes=("Cohere2ForCausalLM",), build=_cohere2)
