"""The work of one step: FLOPs and bytes, operation by operation, in the counted convention.

Counted means: no FLOPs for the embedding lookup (and not its few bytes), lm_head only for positions that need logits
(the last of each prompt; every token of a decode step), the causal half of attention, weights read once per step, the
KV cache written by prefill and read by decode (a prefill after a cached prefix reads that too).
"""

from __future__ import annotations

from typing import NamedTuple

from phasewise.model.architecture import Count, Role
from phasewise.model.model import Model


class Operation(NamedTuple):
    """One kind of operation over all layers: its FLOPs, weight bytes and KV bytes."""

    name: str
    flops: Count
    weight_bytes: float
    kv_bytes: Count = 0.0


class Work(NamedTuple):
    """Everything that a step must do."""

    operations: tuple[Operation, ...]

    @property
    def flops(self) -> Count:
        """FLOPs of the step."""
        return sum((op.flops for op in self.operations), 0.0)

    @property
    def attention_flops(self) -> Count:
        """FLOPs of QKᵀ and AV."""
        return sum((op.flops for op in self.operations if op.name == "attention"), 0.0)

    @property
    def weight_bytes(self) -> float:
        """Weight bytes read."""
        return sum(op.weight_bytes for op in self.operations)

    @property
    def kv_bytes(self) -> Count:
        """KV bytes written and read."""
        return sum((op.kv_bytes for op in self.operations), 0.0)

    @property
    def bytes(self) -> Count:
        """Weight and KV bytes."""
        return self.weight_bytes + self.kv_bytes


def prefill(model: Model, tokens: Count, batch: Count = 1.0, cached: Count = 0.0) -> Work:
    """Work of one pass over ``batch`` prompts of ``tokens`` tokens each, of which the first ``cached`` are cached.

    KV bytes: the fresh tokens' K and V are written, the cached ones in reach are read.
    """
    fresh = tokens - cached
    operations = _matmuls(model, fresh * batch, batch)
    for block in model.architecture.blocks:
        elements = block.mixer.kv_elements(1.0) * fresh + block.mixer.kv_elements(cached)
        flops = block.mixer.flops(block.mixer.pairs(fresh, cached)) * batch * block.count
        operations.append(Operation("attention", flops, 0.0, model.kv_element_bytes * elements * batch * block.count))
    return Work(tuple(operations))


def decode(model: Model, context: Count, batch: Count = 1.0) -> Work:
    """Work of one step that gives each of ``batch`` requests one token after ``context`` tokens."""
    operations = _matmuls(model, batch + 0.0 * context, batch)
    for block in model.architecture.blocks:
        elements = block.mixer.kv_elements(context) * batch * block.count
        # Each cached K (V) element meets its query (weight) in one multiply-add per query head of its group.
        flops = 2.0 * elements * block.mixer.heads / block.mixer.kv_heads
        operations.append(Operation("attention", flops, 0.0, model.kv_element_bytes * elements))
    return Work(tuple(operations))


def _matmuls(model: Model, tokens: Count, logits: Count) -> list[Operation]:
    shape = model.architecture
    roles: tuple[Role, ...] = ("norm", "qkv", "output", "mlp_in", "mlp_out")
    parameters = shape.parameters()
    operations = [
        Operation(role, 2.0 * parameters[role] * tokens, model.weight_bytes[role])
        for role in roles
        if role in parameters
    ]
    head = 2.0 * shape.vocab * shape.hidden * logits + 0.0 * tokens
    return [*operations, Operation("lm_head", head, model.head_bytes)]
