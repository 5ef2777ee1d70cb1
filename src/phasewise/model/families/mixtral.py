"""Mixtral: Mistral's attention with eight experts, of which a token uses two.

Keys and defaults: MixtralConfig of transformers 5.24.
"""

from phasewise.model.architecture import Architecture
from phasewise.model.families.family import Family, Windows, decoder, sliding
from phasewise.model.families.moe import MOE, experts
from phasewise.model.keys import Keys


def _mixtral(keys: Keys) -> Architecture:
    moe = experts(keys, count="num_local_experts", intermediate="intermediate_size")
    return decoder(keys, "mixtral", tied=False, windows=_windows, mlp=lambda layer: moe)


def _windows(keys: Keys, layers: int) -> Windows:
    return sliding(keys, layers, lambda layer: True)


MIXTRAL = Family(
    name="mixtral",
    model_types=("mixtral",),
    classes=("MixtralForCausalLM",),
    build=_mixtral,
    kinds=(MOE,),
)
