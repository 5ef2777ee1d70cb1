"""One block of a GGUF file: its mixer and feed-forward network from the shapes of its tensors.

Tensor names and metadata keys: gguf-py/gguf/constants.py of ggml-org/llama.cpp. A matrix is (inputs, outputs); experts
are stacked in a third dimension.
"""

from __future__ import annotations

from phasewise.errors import InputError
from phasewise.model.architecture import Attention, Mlp
from phasewise.model.feedforward.moe import Moe
from phasewise.model.gguf import Tensor
from phasewise.model.keys import Keys, shown
from phasewise.model.mixers.latent import Latent
from phasewise.model.parts import FeedForward, Mixer

Layer = dict[str, Tensor]
"""The tensors of one block by the rest of their name."""

QK_NORMS = ("attn_q_norm.weight", "attn_k_norm.weight", "attn_q_a_norm.weight", "attn_kv_a_norm.weight")
_SINKS = "attn_sinks.weight"


def mixer(keys: Keys, layer: Layer, number: int, window: int | None) -> Mixer:
    """Attention, or latent attention where the file has its projections."""
    return _latent(keys, layer, number) if "attn_kv_a_mqa.weight" in layer else _attention(keys, layer, number, window)


def _attention(keys: Keys, layer: Layer, number: int, window: int | None) -> Attention:
    where = f"{keys.where}: block {number}"
    heads = _per_layer(keys, "attention.head_count", number)
    kv_heads = _per_layer(keys, "attention.head_count_kv", number, heads)
    if heads % kv_heads:
        raise keys.error("attention.head_count_kv", f"must divide the {heads} heads")
    width, _ = matrix(_tensor(layer, "attn_output.weight", where), where)
    if width % heads:
        raise keys.error("attention.head_count", f"must divide the {width} columns of {where}'s attn_output")
    return Attention(
        heads=heads,
        kv_heads=kv_heads,
        head_dim=width // heads,
        window=window,
        qkv_bias="attn_q.bias" in layer or "attn_qkv.bias" in layer,
        output_bias="attn_output.bias" in layer,
        qk_norm=sum(layer[name].elements for name in QK_NORMS if name in layer),
        sinks=_SINKS in layer,
    )


def _latent(keys: Keys, layer: Layer, number: int) -> Latent:
    where = f"{keys.where}: block {number}"
    heads, kv_rank = _per_layer(keys, "attention.head_count", number), keys.count("attention.kv_lora_rank")
    rope = keys.count("rope.dimension_count")
    # Files made before absorbed attention give the two lengths of a head under the plain names.
    key = keys.optional("attention.key_length_mla") or keys.count("attention.key_length")
    value = keys.optional("attention.value_length_mla") or keys.count("attention.value_length")
    if key <= rope:
        raise keys.error("attention.key_length", f"must be more than the {rope} rotary dimensions")
    down = layer.get("attn_q_a.weight")
    return Latent(
        heads=heads,
        q_rank=matrix(down, where)[1] if down else None,
        kv_rank=kv_rank,
        nope=key - rope,
        rope=rope,
        value=value,
    )


def feed_forward(keys: Keys, layer: Layer, number: int) -> FeedForward:
    """An MLP, or a mixture where the file has experts."""
    where = f"{keys.where}: block {number}"
    down = layer.get("ffn_down_exps.weight")
    if down is None:
        intermediate, _ = matrix(_tensor(layer, "ffn_down.weight", where), where)
        _, up = matrix(_tensor(layer, "ffn_up.weight", where), where)
        gated = "ffn_gate.weight" in layer or up == 2 * intermediate
        return Mlp(intermediate=intermediate, gated=gated, bias="ffn_down.bias" in layer)
    if len(down.shape) != 3:
        raise InputError(f"{where}: ffn_down_exps is no stack of matrices: convert the file again.")
    intermediate, _, experts = down.shape
    chosen = keys.count("expert_used_count")
    if chosen > experts:
        raise keys.error("expert_used_count", f"must be at most the {experts} experts of {where}")
    shared = layer.get("ffn_down_shexp.weight")
    router = layer.get("ffn_gate_inp.bias")
    return Moe(
        experts=experts,
        chosen=chosen,
        intermediate=intermediate,
        gated="ffn_gate_exps.weight" in layer or "ffn_gate_up_exps.weight" in layer,
        shared=matrix(shared, where)[0] if shared else 0,
        shared_gated=shared is None or "ffn_gate_shexp.weight" in layer,
        shared_gate="ffn_gate_inp_shexp.weight" in layer,
        bias="ffn_down_exps.bias" in layer,
        router_extra=router.elements if router else 0,
    )


def _per_layer(keys: Keys, name: str, number: int, default: int | None = None) -> int:
    """A number that the file gives once, or as an array with one number per layer."""
    value = keys.get(name)
    if isinstance(value, tuple):
        if number >= len(value):
            raise keys.error(name, f"must have a number for block {number}")
        return Keys({name: value[number]}, keys.where).count(name)
    return keys.optional(name) or default or keys.count(name)


def _tensor(layer: Layer, name: str, where: str) -> Tensor:
    if name not in layer:
        raise InputError(f"{where} has no {name}: convert the file again.")
    return layer[name]


def matrix(tensor: Tensor, where: str) -> tuple[int, int]:
    """Inputs and outputs.

    Raises:
        InputError: not two dimensions.
    """
    if len(tensor.shape) != 2:
        raise InputError(
            f"{where}: {shown(tensor.name)} is no matrix but {list(tensor.shape)}: convert the file again."
        )
    return tensor.shape[0], tensor.shape[1]
