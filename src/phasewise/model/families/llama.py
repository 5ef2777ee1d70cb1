"""Llama 1 to 3 and what is built like it: grouped-query attention, SwiGLU, RMSNorm.

Keys and defaults: LlamaConfig and GraniteConfig of transformers 5.24.
"""

from phasewise.model.architecture import Architecture
from phasewise.model.families.family import Family, decoder
from phasewise.model.keys import Keys


def _llama(keys: Keys) -> Architecture:
    return _decoder(keys, "llama")


def _granite(keys: Keys) -> Architecture:
    return _decoder(keys, "granite")


def _decoder(keys: Keys, family: str) -> Architecture:
    bias = keys.flag("attention_bias")
    return decoder(keys, family, tied=False, qkv_bias=bias, output_bias=bias, mlp_bias=keys.flag("mlp_bias"))


LLAMA = Family(
    name="llama",
    model_types=("llama",),
    classes=("LlamaForCausalLM", "LLaMAForCausalLM"),
    build=_llama,
    nested={
        "vocab_size": 32000,
        "hidden_size": 4096,
        "intermediate_size": 11008,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "max_position_embeddings": 2048,
    },
    gguf=("llama",),
)

GRANITE = Family(
    name="granite", model_types=("granite",), classes=("GraniteForCausalLM",), build=_granite, gguf=("granite",)
)
