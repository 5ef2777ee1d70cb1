"""Jamba: Mamba 1 with one layer of attention in eight, a mixture in every second layer.

Keys and defaults: JambaConfig of transformers 5.24.
"""

from phasewise.model.architecture import Architecture, Mlp
from phasewise.model.families.family import Family, architecture, attention, layers
from phasewise.model.families.moe import MOE, experts
from phasewise.model.families.qwen_next import LINEAR, MIXED
from phasewise.model.keys import LAYERS, Keys
from phasewise.model.mixers.mamba import mamba1
from phasewise.model.parts import Layer


def _jamba(keys: Keys) -> Architecture:
    hidden = keys.count("hidden_size")
    rank = keys.get("mamba_dt_rank")
    mamba = mamba1(
        hidden,
        keys.count("mamba_expand") * hidden,
        keys.count("mamba_d_state"),
        keys.count("mamba_d_conv"),
        -(-hidden // 16) if rank in (None, "auto") else keys.count("mamba_dt_rank"),
        conv_bias=keys.flag("mamba_conv_bias", True),
        bias=keys.flag("mamba_proj_bias"),
        norms=True,
    )
    attends, mixes = _every(keys, "attn_layer", (8, 4)), _every(keys, "expert_layer", (2, 1))
    full, dense = attention(keys), Mlp(intermediate=keys.count("intermediate_size"))
    keys.get("num_experts_per_tok")
    moe = dense if keys.count("num_experts") == 1 else experts(keys, intermediate="intermediate_size")
    stacked: list[Layer] = [
        (
            full if number % attends[0] == attends[1] else mamba,
            moe if number % mixes[0] == mixes[1] else dense,
            2 * hidden,
        )
        for number in range(layers(keys))
    ]
    return architecture(keys, "jamba", stacked, tied=False)


def _every(keys: Keys, name: str, default: tuple[int, int]) -> tuple[int, int]:
    period = keys.optional(f"{name}_period", LAYERS) or default[0]
    offset = keys.optional(f"{name}_offset", LAYERS, least=0)
    offset = default[1] if offset is None else offset
    if offset >= period:
        raise keys.error(f"{name}_offset", f"must be below {name}_period ({period})")
    return period, offset


JAMBA = Family(
    name="jamba",
    model_types=("jamba",),
    classes=("JambaForCausalLM",),
    build=_jamba,
    kinds=(MOE, LINEAR, MIXED),
)
