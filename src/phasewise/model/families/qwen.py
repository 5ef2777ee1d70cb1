"""Qwen2 and 2.5 (biases on Q, K and V) and Qwen3 (norms on Q and K), also as the text part of their vision models.

Keys and defaults: Qwen2Config, Qwen3Config and the text configs of Qwen2-VL, Qwen2.5-VL and Qwen3-VL of transformers
5.24. ``sliding_window`` holds a number even where ``use_sliding_window`` is false and nothing slides.
"""

from phasewise.model.architecture import Architecture
from phasewise.model.families.family import Family, Windows, decoder, sliding
from phasewise.model.keys import LAYERS, Keys


def _qwen2(keys: Keys) -> Architecture:
    return decoder(keys, "qwen2", tied=False, windows=windows, qkv_bias=True)


def _qwen3(keys: Keys) -> Architecture:
    bias = keys.flag("attention_bias")
    return decoder(
        keys, "qwen3", tied=False, windows=windows, qkv_bias=bias, output_bias=bias, qk_norm="per head", head_dim=128
    )


def windows(keys: Keys, layers: int) -> Windows:
    """A window only with ``use_sliding_window``, from layer ``max_window_layers`` on."""
    if not keys.flag("use_sliding_window"):
        return (None,) * layers
    first = keys.optional("max_window_layers", LAYERS, least=0)
    return sliding(keys, layers, lambda layer: layer >= (28 if first is None else first), absent=4096)


_NESTED = {
    "vocab_size": 151936,
    "hidden_size": 4096,
    "intermediate_size": 22016,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
}

QWEN2 = Family(
    name="qwen2",
    model_types=("qwen2",),
    classes=("Qwen2ForCausalLM",),
    build=_qwen2,
    nested={**_NESTED, "max_position_embeddings": 32768},
    gguf=("qwen2", "qwen2vl"),
)

QWEN2_VL = Family(
    name="qwen2-vl",
    model_types=("qwen2_vl", "qwen2_vl_text", "qwen2_5_vl", "qwen2_5_vl_text"),
    classes=("Qwen2VLForConditionalGeneration", "Qwen2_5_VLForConditionalGeneration"),
    build=_qwen2,
    nested={
        "vocab_size": 152064,
        "hidden_size": 8192,
        "intermediate_size": 29568,
        "num_hidden_layers": 80,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "max_position_embeddings": 32768,
    },
)

QWEN3 = Family(
    name="qwen3",
    model_types=("qwen3",),
    classes=("Qwen3ForCausalLM",),
    build=_qwen3,
    nested={**_NESTED, "max_position_embeddings": 32768},
    gguf=("qwen3",),
)

QWEN3_VL = Family(
    name="qwen3-vl",
    model_types=("qwen3_vl_text",),
    classes=(),
    build=_qwen3,
    nested={**_NESTED, "max_position_embeddings": 128000},
    gguf=("qwen3vl",),
)
