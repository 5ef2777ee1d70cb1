"""RWKV's time mixing: version 4 with a state per channel (arXiv 2305.13048), 5 with one per head (arXiv 2404.05892)."""

from __future__ import annotations

from phasewise.model.mixers.recurrent import Recurrent


def rwkv4(hidden: int, width: int) -> Recurrent:
    """K, V, R of d × a and the output; two decays a channel, three mixes; three numbers a channel as state."""
    return Recurrent(
        kind="RWKV 4",
        into=3 * hidden * width,
        out=width * hidden,
        rest=2 * width + 3 * hidden,
        state=3 * width,
        conv_state=hidden,
        flops_per_state=5.0,
    )


def rwkv5(hidden: int, width: int, head_dim: int) -> Recurrent:
    """K, V, R, G of d × a and the output; decay and bonus a channel, four mixes; a norm and an h × h state a head."""
    return Recurrent(
        kind="RWKV 5",
        into=4 * hidden * width,
        out=width * hidden,
        rest=2 * width + 4 * hidden + 2 * width,
        state=width * head_dim,
        conv_state=hidden,
        flops_per_state=5.0,
    )
