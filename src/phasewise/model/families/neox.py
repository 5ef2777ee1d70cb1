"""GPT-NeoX and Pythia, Phi 1 and 2, StableLM 2: LayerNorm, partly rotary, attention and MLP side by side.

Keys and defaults: GPTNeoXConfig, PhiConfig and StableLmConfig of transformers 5.24.
"""

from phasewise.model.architecture import Architecture
from phasewise.model.families.family import Family, decoder
from phasewise.model.keys import Keys


def _neox(keys: Keys) -> Architecture:
    bias = keys.flag("attention_bias", True)
    return decoder(
        keys,
        "gpt-neox",
        tied=False,
        qkv_bias=bias,
        output_bias=bias,
        mlp_bias=True,
        gated=False,
        norm_bias=True,
        grouped=False,
    )


def _phi(keys: Keys) -> Architecture:
    return decoder(
        keys,
        "phi",
        tied=False,
        qkv_bias=True,
        output_bias=True,
        mlp_bias=True,
        gated=False,
        norms=1,
        norm_bias=True,
        # A LayerNorm of a head's queries and one of its keys, weights and biases.
        qk_norm="layer norm" if keys.flag("qk_layernorm") else "no",
        head_extra=keys.count("vocab_size"),
    )


def _stablelm(keys: Keys) -> Architecture:
    return decoder(
        keys,
        "stablelm",
        tied=False,
        qkv_bias=keys.flag("use_qkv_bias"),
        norms=1 if keys.flag("use_parallel_residual") else 2,
        norm_bias=True,
        qk_norm="all heads" if keys.flag("qk_layernorm") else "no",
    )


NEOX = Family(name="gpt-neox", model_types=("gpt_neox",), classes=("GPTNeoXForCausalLM",), build=_neox)

PHI = Family(name="phi", model_types=("phi",), classes=("PhiForCausalLM",), build=_phi)

STABLELM = Family(name="stablelm", model_types=("stablelm",), classes=("StableLmForCausalLM",), build=_stablelm)
