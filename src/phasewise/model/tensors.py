"""From the tensors of a GGUF file to an architecture and the exact bytes of each role.

The shapes are the truth: norms, biases, fused projections and a tied head are read off them. The metadata gives what
shapes cannot: how many heads, and the window. Where the two disagree the file is refused.
Tensor names: gguf-py/gguf/constants.py of ggml-org/llama.cpp.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator

from phasewise.errors import InputError, UsageError
from phasewise.model.architecture import Architecture
from phasewise.model.families import BY_GGUF, FAMILIES
from phasewise.model.families.family import Family, Windows
from phasewise.model.families.moe import MOE
from phasewise.model.gguf import GgufHeader
from phasewise.model.gguf_block import Layer, feed_forward, matrix, mixer
from phasewise.model.keys import LAYERS, Keys, shown
from phasewise.model.parts import FeedForward, Mixer, Role, Weights, stack
from phasewise.units import show

_BLOCK = re.compile(r"blk\.(\d{1,5})\.(.+)")

_MODEL: dict[str, Role] = {
    "token_embd.weight": "embedding",
    "output.weight": "lm_head",
    "output_norm.weight": "norm",
    "output_norm.bias": "norm",
}

_PARTS: dict[str, Role] = {
    "attn_q": "qkv",
    "attn_k": "qkv",
    "attn_v": "qkv",
    "attn_qkv": "qkv",
    "attn_q_a": "qkv",
    "attn_q_b": "qkv",
    "attn_kv_a_mqa": "qkv",
    "attn_kv_b": "qkv",
    "attn_k_b": "qkv",
    "attn_v_b": "qkv",
    "attn_output": "output",
    "ffn_gate": "mlp_in",
    "ffn_up": "mlp_in",
    "ffn_down": "mlp_out",
    "ffn_gate_inp": "router",
    "ffn_gate_exps": "experts",
    "ffn_up_exps": "experts",
    "ffn_gate_up_exps": "experts",
    "ffn_down_exps": "experts",
    "ffn_gate_inp_shexp": "shared_in",
    "ffn_gate_shexp": "shared_in",
    "ffn_up_shexp": "shared_in",
    "ffn_down_shexp": "shared_out",
    "attn_norm": "norm",
    "attn_q_norm": "norm",
    "attn_k_norm": "norm",
    "attn_q_a_norm": "norm",
    "attn_kv_a_norm": "norm",
    "attn_sinks": "norm",
    "post_attention_norm": "norm",
    "ffn_norm": "norm",
    "post_ffw_norm": "norm",
}
_LAYER = {f"{name}.{kind}": role for name, role in _PARTS.items() for kind in ("weight", "bias")}

_TABLES = re.compile(r"(blk\.\d+\.)?(rope_(freqs|factors_long|factors_short)\.weight|attn_rot_embd|exp_probs_b.*)$")
"""Tables of rotary frequencies, and biases that even out the load of experts: of a few kilobytes, and no weights."""

_EXPERTS = re.compile(r"ffn_gate_inp|_exps\.|_shexp\.")


def architecture(header: GgufHeader, where: str) -> Architecture:
    """The architecture that the header describes.

    Raises:
        UsageError: a kind of model that is not modelled yet.
        InputError: a file that is no whole model, or whose tensors and metadata disagree.
    """
    family, keys = _family(header, where)
    layers: dict[int, Layer] = defaultdict(dict)
    whole: Layer = {}
    for tensor in header.tensors:
        found = _BLOCK.fullmatch(tensor.name)
        if found:
            layers[int(found[1])][found[2]] = tensor
        else:
            whole[tensor.name] = tensor
    embedding = whole.get("token_embd.weight")
    if embedding is None:
        raise InputError(f"{where} holds no token embedding (a vocabulary or an adapter alone?): name a whole model.")
    count = keys.count("block_count", LAYERS)
    if sorted(layers) != list(range(count)):
        raise InputError(f"{where}: {keys.prefix}block_count is {count} but the file holds {len(layers)} blocks.")
    count -= _ahead(keys, count)
    hidden, vocab = matrix(embedding, where)
    if hidden != keys.count("embedding_length"):
        raise keys.error("embedding_length", f"must be {hidden}, the width of the token embedding")
    windows = _windows(keys, family, count)
    blocks = stack(_block(keys, layers[number], number, hidden, windows[number]) for number in range(count))
    if matrix(whole.get("output.weight", embedding), where) != (hidden, vocab):
        raise InputError(f"{where}: output.weight is not as large as the token embedding: convert the file again.")
    return Architecture(
        family=family.name,
        hidden=hidden,
        vocab=vocab,
        tied="output.weight" not in whole,
        blocks=blocks,
        final_norm=sum(tensor.elements for name, tensor in whole.items() if _MODEL.get(name) == "norm"),
        prediction=sum(tensor.elements for number in layers if number >= count for tensor in layers[number].values()),
        max_context=keys.optional("context_length"),
        not_modelled=tuple(_left_out(header, keys, family)),
    )


def bytes_by_role(header: GgufHeader, layers: int) -> dict[Role, float]:
    """Exact bytes of the tensors of each role; those of blocks beyond ``layers`` are prediction layers'."""
    total: dict[Role, float] = {}
    for tensor in header.tensors:
        found = _BLOCK.fullmatch(tensor.name)
        role: Role | None = "prediction" if found and int(found[1]) >= layers else _role(tensor.name)
        if role:
            total[role] = total.get(role, 0.0) + tensor.bytes
    return total


def types_by_bytes(header: GgufHeader, *, lookup: bool = True) -> list[str]:
    """Names of the storage types of the counted tensors, the one with most bytes first.

    ``lookup`` false leaves the token embedding out, which a step does not multiply with unless it is the head too.
    """
    share: Counter[str] = Counter()
    for tensor in header.tensors:
        role = _role(tensor.name)
        if role and (lookup or role != "embedding"):
            share[tensor.type.name] += tensor.bytes
    return [name for name, _ in share.most_common()]


def _role(name: str) -> Role | None:
    found = _BLOCK.fullmatch(name)
    return _LAYER.get(found[2]) if found else _MODEL.get(name)


def _family(header: GgufHeader, where: str) -> tuple[Family, Keys]:
    parts = header.metadata.get("split.count", 1)
    if isinstance(parts, int) and parts > 1:
        raise InputError(f"{where} is one of {parts} parts: join them with `llama-gguf-split --merge` first.")
    name = header.architecture
    kind = header.metadata.get("general.type", "model")
    if kind != "model" or not name:
        raise InputError(
            f"{where} is no language model (general.type {shown(str(kind))!r}): name a model's .gguf file."
        )
    keys = Keys(header.metadata, where, prefix=f"{name}.")
    held = any(_EXPERTS.search(tensor.name) for tensor in header.tensors)
    experts = keys.optional("expert_count", least=0) or 0
    if experts and not held:
        raise keys.error("expert_count", "must be 0 in a file that holds no experts")
    family = BY_GGUF.get(name)
    if held and (family is None or (MOE not in family.kinds and name != "llama")):
        raise UsageError(f"{where}: {shown(name)} with a mixture of experts is not modelled yet.")
    if name not in BY_GGUF:
        known = ", ".join(kind for family in FAMILIES for kind in family.gguf)
        raise UsageError(f"{where}: architecture {shown(name)!r} is not modelled yet: modelled are {known}.")
    return BY_GGUF[name], keys


def _ahead(keys: Keys, blocks: int) -> int:
    """Blocks at the end that predict further tokens."""
    ahead = keys.optional("nextn_predict_layers", LAYERS, least=0) or 0
    if ahead >= blocks:
        raise keys.error("nextn_predict_layers", f"must be below the {blocks} blocks")
    return ahead


def _block(keys: Keys, layer: Layer, number: int, hidden: int, window: int | None) -> tuple[Mixer, FeedForward, int]:
    mixes, mlp = mixer(keys, layer, number, window), feed_forward(keys, layer, number)
    expected: Weights = {**mixes.parameters(hidden), **mlp.parameters(hidden)}
    held: Weights = {}
    for name, tensor in layer.items():
        if name in _LAYER:
            held[_LAYER[name]] = held.get(_LAYER[name], 0) + tensor.elements
    norms = held.pop("norm", 0) - expected.pop("norm", 0)
    for role in {**held, **expected}:
        if held.get(role, 0) != expected.get(role, 0):
            raise InputError(
                f"{keys.where}: block {number} holds {held.get(role, 0):,} {role} weights where its shapes and heads "
                f"make {expected.get(role, 0):,}: convert the file again."
            )
    return mixes, mlp, norms


def _windows(keys: Keys, family: Family, layers: int) -> Windows:
    window = keys.optional("attention.sliding_window", least=0) or None
    if family.full_every is None or window is None:
        return (None,) * layers
    stated = keys.get("attention.sliding_window_pattern")
    period = stated if isinstance(stated, int) and stated > 0 else family.full_every
    return tuple(None if period and (layer + 1) % period == 0 else window for layer in range(layers))


def _left_out(header: GgufHeader, keys: Keys, family: Family) -> Iterator[str]:
    window = keys.optional("attention.sliding_window", least=0)
    if window and family.full_every is None:
        yield f"a sliding window of {window} tokens: attention is counted in full"
    others = [tensor for tensor in header.tensors if not _role(tensor.name) and not _TABLES.match(tensor.name)]
    if others:
        names = ", ".join(shown(tensor.name) for tensor in others[:3]) + (", ..." if len(others) > 3 else "")
        yield f"{len(others)} tensors of {show(sum(tensor.bytes for tensor in others), 'B')}: {names}"
