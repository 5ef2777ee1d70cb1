"""Gemma 1, 2 and 3: a head_dim of its own, GeGLU, a tied head; from Gemma 2 on windows alternate and norms double.

Keys and defaults: GemmaConfig, Gemma2Config and Gemma3TextConfig of transformers 5.24.
"""

from phasewise.model.architecture import Architecture
from phasewise.model.families.family import Family, Windows, decoder, sliding
from phasewise.model.keys import LAYERS, Keys

_HEAD_DIM = 256


def _gemma(keys: Keys) -> Architecture:
    bias = keys.flag("attention_bias")
    return decoder(keys, "gemma", tied=True, qkv_bias=bias, output_bias=bias, head_dim=_HEAD_DIM)


def _gemma2(keys: Keys) -> Architecture:
    bias = keys.flag("attention_bias")
    return decoder(
        keys,
        "gemma2",
        tied=True,
        windows=_every_second_is_full,
        qkv_bias=bias,
        output_bias=bias,
        norms=4,
        head_dim=_HEAD_DIM,
    )


def _gemma3(keys: Keys) -> Architecture:
    bias = keys.flag("attention_bias")
    return decoder(
        keys,
        "gemma3",
        tied=True,
        windows=_pattern,
        qkv_bias=bias,
        output_bias=bias,
        qk_norm="per head",
        norms=4,
        head_dim=_HEAD_DIM,
    )


def _every_second_is_full(keys: Keys, layers: int) -> Windows:
    return sliding(keys, layers, lambda layer: (layer + 1) % 2 != 0, absent=4096)


def _pattern(keys: Keys, layers: int) -> Windows:
    period = keys.optional("sliding_window_pattern", LAYERS) or 6
    return sliding(keys, layers, lambda layer: (layer + 1) % period != 0, absent=4096)


GEMMA = Family(
    name="gemma",
    model_types=("gemma",),
    classes=("GemmaForCausalLM",),
    build=_gemma,
    nested={
        "vocab_size": 256000,
        "hidden_size": 3072,
        "intermediate_size": 24576,
        "num_hidden_layers": 28,
        "num_attention_heads": 16,
        "num_key_value_heads": 16,
        "max_position_embeddings": 8192,
    },
    gguf=("gemma",),
)

GEMMA2 = Family(
    name="gemma2",
    model_types=("gemma2",),
    classes=("Gemma2ForCausalLM",),
    build=_gemma2,
    nested={
        "vocab_size": 256000,
        "hidden_size": 2304,
        "intermediate_size": 9216,
        "num_hidden_layers": 26,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "max_position_embeddings": 8192,
    },
    gguf=("gemma2",),
    full_every=2,
)

GEMMA3 = Family(
    name="gemma3",
    model_types=("gemma3_text",),
    classes=("Gemma3ForCausalLM",),
    build=_gemma3,
    nested={
        "vocab_size": 262208,
        "hidden_size": 2304,
        "intermediate_size": 9216,
        "num_hidden_layers": 26,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "max_position_embeddings": 131072,
    },
    gguf=("gemma3",),
    full_every=6,
)
