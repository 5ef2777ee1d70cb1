"""State-space mixers: Mamba 1 (arXiv 2312.00752) and Mamba 2 (arXiv 2405.21060). Weights as in transformers 5.24."""

from __future__ import annotations

from phasewise.model.mixers.recurrent import Recurrent


def mamba1(
    hidden: int,
    inner: int,
    state: int,
    kernel: int,
    rank: int,
    *,
    conv_bias: bool = True,
    bias: bool = False,
    norms: bool = False,
) -> Recurrent:
    """2d·di into it, di·(R + 2N) and R·di for its steps, di·d out of it, the convolution, decays of di × N.

    ``norms`` are those of Jamba on step, B and C. A token costs, for each element of the di × N state, a decay (2), an
    input (2) and a read-out (2).
    """
    return Recurrent(
        kind="Mamba 1",
        into=2 * hidden * inner + (2 * inner if bias else 0),
        out=inner * hidden + (hidden if bias else 0),
        rest=inner * (kernel + (1 if conv_bias else 0))
        + inner * (rank + 2 * state)
        + rank * inner
        + inner
        + inner * state
        + inner
        + (rank + 2 * state if norms else 0),
        state=inner * state,
        conv_state=inner * (kernel - 1),
        flops_per_state=6.0,
    )


def mamba2(
    hidden: int,
    heads: int,
    head_dim: int,
    state: int,
    groups: int,
    kernel: int,
    *,
    conv_bias: bool = True,
    bias: bool = False,
    norm: bool = True,
    state_bytes: float = 4.0,
) -> Recurrent:
    """d·(2di + 2GN + nh) into it, di·d out of it, the convolution over di + 2GN, decays, and a gated norm.

    A token costs, for each element of the nh × h × N state, a decay (1), an input (2) and a read-out (2).
    """
    inner = heads * head_dim
    convolved = inner + 2 * groups * state
    entering = inner + convolved + heads
    return Recurrent(
        kind="Mamba 2",
        into=hidden * entering + (entering if bias else 0),
        out=inner * hidden + (hidden if bias else 0),
        rest=convolved * (kernel + (1 if conv_bias else 0)) + 3 * heads + (inner if norm else 0),
        state=inner * state,
        conv_state=convolved * (kernel - 1),
        flops_per_state=5.0,
        state_element_bytes=state_bytes,
    )
