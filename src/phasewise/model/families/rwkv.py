"""RWKV 4 and 5: time mixing and channel mixing in place of attention and MLP.

Keys and defaults: RwkvConfig of transformers 5.24 (version 4); configuration_rwkv5.py and modeling_rwkv5.py of
RWKV/rwkv-5-world-3b for version 5, from memory.
"""

from phasewise.model.architecture import Architecture
from phasewise.model.families.family import Family, architecture, layers
from phasewise.model.families.qwen_next import LINEAR
from phasewise.model.feedforward.channel_mix import ChannelMix
from phasewise.model.keys import Keys
from phasewise.model.mixers.rwkv import rwkv4, rwkv5
from phasewise.model.parts import Layer, Mixer


def _rwkv4(keys: Keys) -> Architecture:
    hidden = keys.count("hidden_size")
    mixer = rwkv4(hidden, keys.optional("attention_hidden_size") or hidden)
    return _shape(keys, "rwkv4", mixer, keys.optional("intermediate_size") or 4 * hidden)


def _rwkv5(keys: Keys) -> Architecture:
    hidden, head_dim = keys.count("hidden_size"), keys.count("head_size")
    width = keys.optional("attention_hidden_size") or hidden
    if width % head_dim:
        raise keys.error("head_size", f"must divide the {width} channels of attention")
    # int(3.5·d) rounded down to a multiple of 32.
    mlp = keys.optional("intermediate_size") or int(hidden * 3.5) // 32 * 32
    return _shape(keys, "rwkv5", rwkv5(hidden, width, head_dim), mlp)


def _shape(keys: Keys, family: str, mixer: Mixer, intermediate: int) -> Architecture:
    hidden = keys.count("hidden_size")
    stacked: list[Layer] = [(mixer, ChannelMix(intermediate=intermediate), 4 * hidden)] * layers(keys)
    # A norm before the first layer, and one after the last.
    return architecture(keys, family, stacked, tied=False, final_norm=4 * hidden, context="context_length")


RWKV4 = Family(name="rwkv4", model_types=("rwkv",), classes=(), build=_rwkv4, kinds=(LINEAR,))


def _convention(shape: Architecture) -> str:
    own = sum(shape.parameters().values()) + (shape.vocab * shape.hidden if shape.tied else 0)
    return f"published checkpoints hold an lm_head of their own: {own / 1e9:.2f}e9"


RWKV5 = Family(name="rwkv5", model_types=("rwkv5",), classes=(), build=_rwkv5, kinds=(LINEAR,), convention=_convention)
