"""Gated delta rule: GatedDeltaNet (Qwen3-Next, Qwen3.5; arXiv 2412.06464) and Kimi Delta Attention (arXiv 2510.26692).

Weights as in transformers 5.24, qwen3_next and kimi_linear.
"""

from __future__ import annotations

from phasewise.model.mixers.recurrent import Recurrent

_FLOPS_PER_STATE = 7.0
"""Decay 1, read with k 2, outer-product update 2, read with q 2."""


def gated_delta_net(
    hidden: int, key_heads: int, value_heads: int, key_dim: int, value_dim: int, kernel: int, state_bytes: float = 4.0
) -> Recurrent:
    """d(2·nk·dk + 2·nv·dv) + 2·d·nv into it, nv·dv·d out of it, the convolution, decays and a norm."""
    keys, values = key_heads * key_dim, value_heads * value_dim
    convolved = 2 * keys + values
    return Recurrent(
        kind="gated delta net",
        into=hidden * (2 * keys + 2 * values) + 2 * hidden * value_heads,
        out=values * hidden,
        rest=kernel * convolved + 2 * value_heads + value_dim,
        state=value_heads * key_dim * value_dim,
        conv_state=convolved * (kernel - 1),
        flops_per_state=_FLOPS_PER_STATE,
        state_element_bytes=state_bytes,
    )


def kimi_delta(hidden: int, heads: int, head_dim: int, kernel: int, full_rank_gate: bool = False) -> Recurrent:
    """Q, K, V of d × H·h, forget and output gates (of rank h, or full), b; a decay per channel."""
    width = heads * head_dim
    low_rank = head_dim * (hidden + width)
    gate = hidden * width if full_rank_gate else low_rank
    return Recurrent(
        kind="Kimi delta attention",
        into=3 * hidden * width + low_rank + gate + hidden * heads,
        out=width * hidden,
        rest=3 * kernel * width + width + heads + head_dim,
        state=heads * head_dim * head_dim,
        conv_state=3 * width * (kernel - 1),
        flops_per_state=_FLOPS_PER_STATE,
    )
