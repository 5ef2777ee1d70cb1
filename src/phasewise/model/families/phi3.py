"""Phi-3, Phi-3.5 and Phi-4: fused QKV and fused gate and up, no biases, often a sliding window over all layers.

Keys and defaults: Phi3Config of transformers 5.24. Its ``attention_bias`` key has no effect there.
"""

from phasewise.model.architecture import Architecture
from phasewise.model.families.family import Family, Windows, decoder, sliding
from phasewise.model.keys import Keys


def _phi3(keys: Keys) -> Architecture:
    return decoder(keys, "phi3", tied=False, windows=_windows)


def _windows(keys: Keys, layers: int) -> Windows:
    return sliding(keys, layers, lambda layer: True)


PHI3 = Family(
    name="phi3",
    model_types=("phi3",),
    classes=("Phi3ForCausalLM",),
    build=_phi3,
    nested={
        "vocab_size": 32064,
        "hidden_size": 3072,
        "intermediate_size": 8192,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "max_position_embeddings": 4096,
    },
    gguf=("phi3",),
    full_every=0,
)
