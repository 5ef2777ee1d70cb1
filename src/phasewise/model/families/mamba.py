"""Mamba 1 and 2 and Falcon-Mamba: state-space layers alone.

Keys and defaults: MambaConfig, FalconMambaConfig and Mamba2Config of transformers 5.24. Where ``intermediate_size`` is
given it wins over ``expand``, which Falcon-Mamba's file states but does not use.
"""

from phasewise.model.architecture import Architecture
from phasewise.model.families.family import Family, architecture, layers
from phasewise.model.families.qwen_next import LINEAR
from phasewise.model.keys import Keys
from phasewise.model.mixers.mamba import mamba1, mamba2
from phasewise.model.parts import Layer, NoFeedForward


def _mamba(keys: Keys) -> Architecture:
    hidden = keys.count("hidden_size")
    mixer = mamba1(
        hidden,
        keys.optional("intermediate_size") or (keys.optional("expand") or 2) * hidden,
        keys.count("state_size"),
        keys.count("conv_kernel"),
        -(-hidden // 16) if keys.get("time_step_rank") in (None, "auto") else keys.count("time_step_rank"),
        conv_bias=keys.flag("use_conv_bias", True),
        bias=keys.flag("use_bias"),
    )
    stacked: list[Layer] = [(mixer, NoFeedForward(), hidden)] * layers(keys)
    return architecture(keys, "mamba", stacked, tied=True)


def _mamba2(keys: Keys) -> Architecture:
    hidden = keys.count("hidden_size")
    mixer = mamba2(
        hidden,
        keys.count("num_heads"),
        keys.count("head_dim"),
        keys.count("state_size"),
        keys.count("n_groups"),
        keys.count("conv_kernel"),
        conv_bias=keys.flag("use_conv_bias", True),
        bias=keys.flag("use_bias"),
    )
    stacked: list[Layer] = [(mixer, NoFeedForward(), hidden)] * layers(keys)
    return architecture(keys, "mamba2", stacked, tied=False)


MAMBA = Family(
    name="mamba",
    model_types=("mamba", "falcon_mamba"),
    classes=("MambaForCausalLM", "FalconMambaForCausalLM"),
    build=_mamba,
    kinds=(LINEAR,),
)

MAMBA2 = Family(
    name="mamba2",
    model_types=("mamba2",),
    classes=("Mamba2ForCausalLM",),
    build=_mamba2,
    kinds=(LINEAR,),
)
