"""Mistral 7B, Nemo, Small and Ministral: Llama's blocks, no biases, a window over all layers or none.

Keys and defaults: MistralConfig and Ministral3Config of transformers 5.24. In MistralConfig an absent
``sliding_window`` is 4096, a null one is full attention.
"""

from phasewise.model.architecture import Architecture
from phasewise.model.families.family import Family, Windows, decoder, sliding
from phasewise.model.keys import Keys


def _mistral(keys: Keys) -> Architecture:
    return decoder(keys, "mistral", tied=False, windows=_windows)


def _ministral3(keys: Keys) -> Architecture:
    return decoder(keys, "ministral3", tied=False, windows=_no_window_unless_stated, head_dim=128)


def _windows(keys: Keys, layers: int) -> Windows:
    return sliding(keys, layers, lambda layer: True, absent=4096)


def _no_window_unless_stated(keys: Keys, layers: int) -> Windows:
    return sliding(keys, layers, lambda layer: True)


MISTRAL = Family(
    name="mistral",
    model_types=("mistral",),
    classes=("MistralForCausalLM",),
    build=_mistral,
    nested={
        "vocab_size": 32000,
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "max_position_embeddings": 131072,
    },
    gguf=("mistral3",),
)

MINISTRAL3 = Family(
    name="ministral3",
    model_types=("ministral3",),
    classes=("Ministral3ForCausalLM",),
    build=_ministral3,
    nested={
        "vocab_size": 131072,
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 34,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "max_position_embeddings": 262144,
    },
)
