"""A model directory's own tensors against the formula: exact bytes by role where they agree, else the difference."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import msgspec

from phasewise.errors import InputError
from phasewise.model import safetensors
from phasewise.model.architecture import Architecture
from phasewise.model.model import Model
from phasewise.model.parts import Role
from phasewise.model.safetensors import Tensor
from phasewise.units import show

_INDEX = "model.safetensors.index.json"
_MOST_INDEX = 200 * 2**20
_AGREE = 0.001
"""Largest relative difference between tensors and formula that counts as agreement."""

_SCALE = re.compile(
    r"(_scale|_scale_inv|_scale_2|_scales|\.scales|\.qzeros|\.g_idx|weight_shape|zero_point|absmax|quant_map|tid2eid"
    r"|quant_state\.\w+|gate\.e_score_correction_bias|expert_bias|rotary_emb\.inv_freq|masked_bias|attn\.bias)$"
)
"""Tensors that are no parameters of the model's class: scales, zero points, buffers. Their bytes count all the same."""

_NAMES: tuple[tuple[Role, str], ...] = (
    ("vision", r"(^|\.)(vision_tower|vision_model|visual|multi_modal_projector|mm_projector)\."),
    ("prediction", r"(^|\.)(mtp|nextn|mtp_layers)\."),
    ("encoder", r"(^|\.)encoder\."),
    ("norm", r"(norm|layernorm|ln_\w+|ln\d|pre_ln|layer_norm|norm_f|sinks|_hc|hc_head)(\.|$)"),
    ("norm", r"(feed_forward\.time_mix_\w+|cross_attn_\w+_gate|per_layer_\w+)(\.|$)"),
    ("indexer", r"\.indexer\."),
    ("router", r"(mlp|ffn|feed_forward|block_sparse_moe|mixer|moe)\.(gate|router)\.(weight|bias|moe_statics\.\w+)$"),
    ("shared_in", r"(shared_experts?\.|shared_mlp\.)(gate|up|w1|w3|gate_up|input)\w*|shared_expert_gate"),
    ("shared_out", r"(shared_experts?\.|shared_mlp\.)(down|w2|output)\w*"),
    ("experts", r"\.experts?\."),
    ("cross", r"(encoder_attn|EncDecAttention|cross_attn)\.(k|v|k_proj|v_proj)\."),
    ("recurrence", r"(conv1d|A_log|dt_bias|dt_proj|x_proj|\.D$|compressor|time_(decay|first|faaaa|mix))"),
    ("lm_head", r"(^|\.)(lm_head|embed_out|output_layer|head)\.\w+$"),
    ("position", r"(wpe|embed_positions|position_embedding\w*)\."),
    ("embedding", r"(embed_tokens|embed_tokens_per_layer|wte|word_embeddings|embeddings?|shared|embed_in)\.\w+$"),
    ("output", r"(o_proj|out_proj|attn\.c_proj|attn\.dense|attention\.(dense|output)|o_a_proj|o_b_proj)\."),
    ("output", r"(SelfAttention|EncDecAttention)\.o\."),
    ("mlp_out", r"(down_proj|w2|c_proj|fc2|dense_4h_to_h|fc_out|wo|feed_forward\.value)\."),
    ("mlp_in", r"(gate_proj|up_proj|gate_up_proj|w1|w3|c_fc|fc1|dense_h_to_4h|fc_in|wi|wi_0|wi_1)\."),
    ("mlp_in", r"feed_forward\.(key|receptance)\."),
    ("qkv", r"(attn|attention|SelfAttention|EncDecAttention|mixer|mamba)\.\w*"),
)
"""The first that is found in a tensor's name says its role."""

_ROLES = tuple((role, re.compile(pattern)) for role, pattern in _NAMES)


def reconciled(model: Model, directory: Path) -> Model:
    """``model`` with what the directory's safetensors say; unchanged where there are none.

    Raises:
        InputError: a header or an index that is damaged.
    """
    tensors = safetensors.tensors(directory)
    if not tensors:
        return _with_index(model, directory)
    shape = model.architecture
    counted = sum(shape.all_parameters().values())
    held = _parameters(tensors, shape)
    agree = abs(held / counted - 1) <= _AGREE
    roles = _bytes_by_role(tensors, shape)
    missing = [role for role, n in shape.all_parameters().items() if n and role not in roles and role != "norm"]
    note = f"{len(tensors)} tensors hold {held:,} parameters, the config's formula gives {counted:,}"
    if agree and not missing:
        exact = {role: roles.get(role, model.weight_bytes[role]) for role in shape.all_parameters()}
        shape = msgspec.structs.replace(shape, notes=(*shape.notes, f"{note}: they agree"))
        source = model.source.replace("; weights in", f"; bytes of {len(tensors)} tensors; weights in", 1)
        return msgspec.structs.replace(
            model, architecture=shape, weight_bytes=exact, provenance="measured", source=source
        )
    if agree:
        note += f", but none of them is known as {', '.join(missing)}: bytes are the formula's"
        return msgspec.structs.replace(model, architecture=msgspec.structs.replace(shape, notes=(*shape.notes, note)))
    difference = f"{note}: a difference of {abs(held - counted):,} that is not explained; bytes are the formula's"
    shape = msgspec.structs.replace(shape, not_modelled=(*shape.not_modelled, difference))
    return msgspec.structs.replace(model, architecture=shape)


def _with_index(model: Model, directory: Path) -> Model:
    """The same with an index alone: its total size against the formula's bytes."""
    file = directory / _INDEX
    if not os.path.isfile(file):
        return model
    try:
        if file.stat().st_size > _MOST_INDEX:
            raise InputError(f"{_INDEX} is larger than 200 MB, so it is no index: move it away.")
        index = json.loads(file.read_bytes())
    except (ValueError, RecursionError, OSError):
        raise InputError(f"{_INDEX} is not JSON: download it again.") from None
    metadata = index.get("metadata") if isinstance(index, dict) else None
    size = metadata.get("total_size") if isinstance(metadata, dict) else None
    if not isinstance(size, int | float) or isinstance(size, bool) or not 0 < size < 2**60:
        return model
    counted = sum(model.weight_bytes.values())
    said = f"{_INDEX} says {show(float(size), 'B', 4)} of weights, the formula gives {show(counted, 'B', 4)}"
    shape = model.architecture
    if abs(size / counted - 1) <= 0.01:
        shape = msgspec.structs.replace(shape, notes=(*shape.notes, f"{said}: they agree"))
    else:
        shape = msgspec.structs.replace(shape, not_modelled=(*shape.not_modelled, f"{said}: a part is not counted"))
    return msgspec.structs.replace(model, architecture=shape)


def role_of(name: str, shape: Architecture) -> Role | None:
    """The role of the tensor called ``name`` in a checkpoint of ``shape``; None when it is not known."""
    layer = re.search(r"layers\.(\d{1,6})\.", name)
    if layer and int(layer[1]) >= shape.layers and not re.search("vis(ion|ual)|encoder", name):
        return "prediction"
    return next((role for role, pattern in _ROLES if pattern.search(name)), None)


def _bytes_by_role(tensors: tuple[Tensor, ...], shape: Architecture) -> dict[Role, float]:
    found: dict[Role, float] = {}
    for tensor in tensors:
        role = role_of(tensor.name, shape)
        # A checkpoint may hold a copy of a tied head, which serving does not load.
        if role is not None and not (role == "lm_head" and shape.tied):
            found[role] = found.get(role, 0.0) + tensor.bytes
    return found


def _parameters(tensors: tuple[Tensor, ...], shape: Architecture) -> int:
    """Parameters that the tensors hold, packed ones unpacked."""
    return sum(
        tensor.elements * _packed(tensor)
        for tensor in tensors
        if not _SCALE.search(tensor.name) and not (shape.tied and role_of(tensor.name, shape) == "lm_head")
    )


def _packed(tensor: Tensor) -> int:
    """Weights in one stored element: eight 4-bit ones in a GPTQ or AWQ integer, two in a byte of NVFP4 or MXFP4."""
    if tensor.dtype == "I32" and tensor.name.endswith((".qweight", "_packed")):
        return 8
    if tensor.dtype == "U8" and not tensor.name.endswith(".bias"):
        return 2
    return 1
