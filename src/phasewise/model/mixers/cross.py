"""Cross-attention: queries of the decoder over K and V of an encoder, made once per request in the prefill."""

from __future__ import annotations

from phasewise.model.mixers.attention import Attention
from phasewise.model.parts import Mixer, Operation, Weights
from phasewise.model.passes import Pass


class Cross(Mixer, frozen=True, kw_only=True):
    """Cross-attention over ``Pass.source`` encoded tokens, after self-attention in the same layer where there is any.

    Attributes:
        own: the layer's self-attention, None for a layer of cross-attention alone (Llama 3.2 Vision).
        heads, kv_heads, head_dim: of the cross-attention.
        source_width: width of what the encoder gives, where it is not the decoder's hidden size.
        query_bias, key_value_bias, output_bias: weights of biases.
        extra: weights of norms and gates.
    """

    own: Attention | None
    heads: int
    kv_heads: int
    head_dim: int
    source_width: int | None = None
    query_bias: int = 0
    key_value_bias: int = 0
    output_bias: int = 0
    extra: int = 0

    def parameters(self, hidden: int) -> Weights:
        """Those of both attentions; the projections of the encoder's output are ``cross``."""
        found: Weights = dict(self.own.parameters(hidden)) if self.own else {"qkv": 0, "output": 0, "norm": 0}
        found["qkv"] += hidden * self.heads * self.head_dim + self.query_bias
        found["output"] += self.heads * self.head_dim * hidden + self.output_bias
        found["norm"] += self.extra
        width = hidden if self.source_width is None else self.source_width
        found["cross"] = width * 2 * self.kv_heads * self.head_dim + self.key_value_bias
        return found

    @property
    def kv_per_token(self) -> float:
        """Of the self-attention: the encoded tokens' K and V do not grow with the context."""
        return self.own.kv_per_token if self.own else 0.0

    @property
    def kv_words(self) -> str:
        """As the self-attention's."""
        return self.own.kv_words if self.own else "0 (cross-attention)"

    @property
    def kv_per_source(self) -> float:
        """2·K·h elements."""
        return 2.0 * self.kv_heads * self.head_dim

    def operations(self, step: Pass, kv_element_bytes: float) -> tuple[Operation, ...]:
        """Self-attention, and 4·H·h FLOPs for each pair of a new token and an encoded one; their K and V moved once."""
        flops = 4.0 * self.heads * self.head_dim * step.tokens * step.source * step.batch
        moved = 2.0 * self.kv_heads * self.head_dim * step.source * step.batch + 0.0 * step.tokens
        cross = Operation("attention", flops, 0.0, moved * kv_element_bytes)
        return (*self.own.operations(step, kv_element_bytes), cross) if self.own else (cross,)
