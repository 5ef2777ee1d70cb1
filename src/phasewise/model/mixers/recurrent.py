"""Mixers with a recurrent state in place of a KV cache: linear attention, state-space models, RWKV.

A request holds a state of constant size. Every pass reads and writes it once; every token updates it and reads from it.
The per-token work counts the recurrence as the sequential form does it: decay, outer product and read-out. Chunked
kernels do somewhat more FLOPs in prefill, on matrix units.
"""

from __future__ import annotations

from phasewise.model.parts import Mixer, Operation, Weights
from phasewise.model.passes import Count, Pass


class Recurrent(Mixer, frozen=True, kw_only=True):
    """Any mixer whose state is a number of elements, described by its weights and its state.

    ``delta``, ``mamba`` and ``rwkv`` beside this file make it from a model's dimensions.

    Attributes:
        kind: the mixer's name.
        into, out, rest: weights of projections into the mixer and out of it, and all others.
        state: elements of the recurrent state (heads × key × value, or channels × state).
        conv_state: elements of the convolution's or shift's memory.
        flops_per_state: FLOPs that a token costs for each element of ``state``.
        state_element_bytes: bytes of an element of ``state``; FP32 unless the config says otherwise.
        conv_element_bytes: the same for ``conv_state``.
    """

    kind: str
    into: int
    out: int
    rest: int
    state: int
    conv_state: int
    flops_per_state: float
    state_element_bytes: float = 4.0
    conv_element_bytes: float = 2.0

    def parameters(self, hidden: int) -> Weights:
        """As given."""
        return {"qkv": self.into, "output": self.out, "recurrence": self.rest}

    @property
    def kv_words(self) -> str:
        """No cache."""
        return f"0 ({self.kind}: a state of {self.state_bytes:,.0f} B a request and layer)"

    @property
    def state_bytes(self) -> float:
        """State and convolution memory of one request."""
        return self.state * self.state_element_bytes + self.conv_state * self.conv_element_bytes

    def operations(self, step: Pass, kv_element_bytes: float) -> tuple[Operation, ...]:
        """The state updated by each token; written once per pass, and read in a decode step."""
        flops: Count = self.flops_per_state * self.state * step.all_tokens
        moved = (2.0 if step.decode else 1.0) * self.state_bytes * step.batch + 0.0 * step.tokens
        return (Operation("state", flops, 0.0, moved),)
