"""Llama 3.2 Vision: Llama's layers, and among them layers that attend to the image alone.

Keys and defaults: MllamaTextConfig of transformers 5.24. Without an image the cross-attention layers are skipped.
"""

import msgspec

from phasewise.model.architecture import Architecture, Mlp
from phasewise.model.families.family import Family, architecture, attention, layers
from phasewise.model.keys import Keys
from phasewise.model.mixers.cross import Cross
from phasewise.model.parts import Layer

CROSS = "cross-attention layers"

_EXTRA_TOKENS = 8
"""Rows of the embedding table beyond the vocabulary that lm_head has."""


def _mllama(keys: Keys) -> Architecture:
    count, hidden = layers(keys), keys.count("hidden_size")
    among = set(keys.numbers("cross_attention_layers") or ())
    if not among <= set(range(count)):
        raise keys.error("cross_attention_layers", f"must be numbers of layers, 0 to {count - 1}")
    own, mlp = attention(keys), Mlp(intermediate=keys.count("intermediate_size"))
    # Norms of queries and keys, and two gates.
    cross = Cross(own=None, heads=own.heads, kv_heads=own.kv_heads, head_dim=own.head_dim, extra=2 * own.head_dim + 2)
    stacked: list[Layer] = [(cross if n in among else own, mlp, 2 * hidden) for n in range(count)]
    shape = architecture(keys, "mllama", stacked, tied=False, embedding_extra=_EXTRA_TOKENS * hidden)
    blocks = tuple(msgspec.structs.replace(block, dormant=isinstance(block.mixer, Cross)) for block in shape.blocks)
    return msgspec.structs.replace(shape, blocks=blocks)


MLLAMA = Family(
    name="mllama",
    model_types=("mllama_text_model",),
    classes=("MllamaForCausalLM",),
    build=_mllama,
    nested={
        "vocab_size": 128256,
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 40,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "max_position_embeddings": 131072,
        "cross_attention_layers": [3, 8, 13, 18, 23, 28, 33, 38],
    },
    kinds=(CROSS,),
)
