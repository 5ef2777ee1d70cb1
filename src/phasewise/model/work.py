"""The work of one step: FLOPs and bytes, operation by operation, in the counted convention.

Counted means: no FLOPs for the embedding lookup (and not its few bytes), lm_head only for positions that need logits
(the last of each prompt; every token of a decode step), the causal half of attention, weights read once per step, of
routed experts those that the step's tokens are expected to choose, the KV cache written by prefill and read by decode
(a prefill after a cached prefix reads that too), recurrent states once per pass.
"""

from __future__ import annotations

from typing import NamedTuple

from phasewise.model.model import Model
from phasewise.model.parts import Operation, Role
from phasewise.model.passes import Count, Pass
from phasewise.model.tower import Tower

__all__ = ["Operation", "Pass", "Work", "decode", "prefill", "step"]

ATTENTION = ("attention", "indexer")
"""Names of the operations that attention consists of."""

_NOT_PER_TOKEN = ("embedding", "position", "lm_head", "encoder", "cross")
"""Roles of weights that are looked up, or that not every new token multiplies with."""


class Work(NamedTuple):
    """Everything that a step must do."""

    operations: tuple[Operation, ...]

    @property
    def flops(self) -> Count:
        """FLOPs of the step."""
        return sum((op.flops for op in self.operations), 0.0)

    @property
    def attention_flops(self) -> Count:
        """FLOPs of QKᵀ and AV, and of the scores that choose what they see."""
        return sum((op.flops for op in self.operations if op.name in ATTENTION), 0.0)

    @property
    def weight_bytes(self) -> Count:
        """Weight bytes read."""
        return sum((op.weight_bytes for op in self.operations), 0.0)

    @property
    def kv_bytes(self) -> Count:
        """KV and state bytes written and read."""
        return sum((op.kv_bytes for op in self.operations), 0.0)

    @property
    def bytes(self) -> Count:
        """Weight and KV bytes."""
        return self.weight_bytes + self.kv_bytes


def prefill(model: Model, tokens: Count, batch: Count = 1.0, cached: Count = 0.0) -> Work:
    """Work of one pass over ``batch`` prompts of ``tokens`` tokens each, of which the first ``cached`` are cached.

    KV bytes: the fresh tokens' K and V are written, the cached ones in reach are read.
    """
    return step(model, Pass(tokens - cached, cached, batch))


def decode(model: Model, context: Count, batch: Count = 1.0, tokens: Count = 1.0) -> Work:
    """Work of one step that gives each of ``batch`` requests ``tokens`` tokens after ``context`` tokens."""
    return step(model, Pass(tokens, context, batch, decode=True))


def step(model: Model, *passes: Pass) -> Work:
    """Work of one step that makes all of ``passes`` at once: their weights are read once.

    A mixed step is a decode pass and the prefill of a chunk; shapes must broadcast.
    """
    shape = model.architecture
    seen = [shape.seen_by_decoder(one) for one in passes]
    operations = _matmuls(model, seen)
    for one in seen:
        for block in shape.working:
            operations += [op.times(block.count) for op in block.mixer.operations(one, model.kv_element_bytes)]
    if shape.encoder:
        operations += _tower(model, shape.encoder, "encoder", passes)
    if shape.vision:
        operations += _tower(model, shape.vision, "vision", passes)
    return Work(tuple(operations))


def _matmuls(model: Model, passes: list[Pass]) -> list[Operation]:
    shape = model.architecture
    tokens: Count = sum((one.all_tokens for one in passes), 0.0)
    logits: Count = sum((one.logits for one in passes), 0.0)
    stored, active, touched = shape.parameters(), shape.active(), shape.touched(tokens)
    operations = [
        Operation(role, 2.0 * weights * tokens, model.weight_bytes[role] * (touched[role] / stored[role]))
        for role, weights in active.items()
        if role not in _NOT_PER_TOKEN and stored[role]
    ]
    if "cross" in active:
        sources: Count = sum((one.source * one.batch for one in passes if not one.decode), 0.0)
        read = 0.0 if all(one.decode for one in passes) else 1.0
        operations.append(Operation("cross", 2.0 * stored["cross"] * sources, model.weight_bytes["cross"] * read))
    head = 2.0 * shape.table * logits
    return [*operations, Operation("lm_head", head, model.head_bytes)]


def _tower(model: Model, tower: Tower, role: Role, passes: tuple[Pass, ...]) -> list[Operation]:
    """An encoder or a vision tower runs once for each prompt; a vision tower only where an image is given."""
    prompts = [one for one in passes if not one.decode]
    if not prompts or (role == "vision" and not tower.tokens):
        return []
    flops: Count = 0.0
    attention: Count = 0.0
    for one in prompts:
        tokens = one.past + one.tokens if tower.tokens is None else float(tower.tokens)
        flops = flops + tower.flops(tokens) * one.batch
        attention = attention + tower.attention_flops(tokens) * one.batch
    return [Operation(role, flops, model.weight_bytes[role]), Operation("attention", attention)]
