"""The shape of a model: blocks of a mixer and an MLP, each able to say what it stores and what it computes.

Counts are of one block; ``Architecture`` multiplies by how many such blocks there are. Sources of the formulas:
notes in docs/physics.md, which names the papers.
"""

from __future__ import annotations

from typing import Literal

import msgspec
import numpy as np
import numpy.typing as npt

Role = Literal["embedding", "qkv", "output", "mlp_in", "mlp_out", "norm", "lm_head"]
"""What a group of weights is for; bytes and FLOPs are added up by it."""

Count = float | npt.NDArray[np.float64]
"""A number, or an array of them: the work of a whole grid is counted in one call."""


class Attention(msgspec.Struct, frozen=True, kw_only=True):
    """Softmax attention with ``heads`` query heads that share ``kv_heads`` key and value heads (MHA, GQA, MQA).

    ``window`` is the sliding window in tokens, None for full attention. ``head_dim`` is its own number: hidden/heads is
    wrong for Qwen3, Gemma and Mistral-Nemo. ``qk_norm`` counts the weights of query and key norms.
    """

    heads: int
    kv_heads: int
    head_dim: int
    window: int | None = None
    qkv_bias: bool = False
    output_bias: bool = False
    qk_norm: int = 0

    def parameters(self, hidden: int) -> dict[Role, int]:
        """Weights by role: d·h·(H+2K) for QKV, H·h·d for the output projection, plus biases and QK norms."""
        qkv = self.head_dim * (self.heads + 2 * self.kv_heads)
        return {
            "qkv": hidden * qkv + (qkv if self.qkv_bias else 0),
            "output": self.heads * self.head_dim * hidden + (hidden if self.output_bias else 0),
            "norm": self.qk_norm,
        }

    def pairs(self, tokens: Count, past: Count = 0.0) -> Count:
        """Query-key pairs that a causal pass over ``tokens`` after ``past`` cached ones must compute.

        Full attention: N²/2 + p·N (the diagonal's N/2 is left out, as in the published counts). Window w: each query
        sees at most w keys, so the pairs grow linearly once past + position exceeds w.
        """
        full = tokens * tokens / 2 + past * tokens
        if self.window is None:
            return full
        growing = np.clip(self.window - past, 0.0, tokens)
        seen: Count = growing * growing / 2 + past * growing + self.window * (tokens - growing)
        return seen

    def flops(self, pairs: Count) -> Count:
        """QKᵀ and AV: 4·H·h FLOPs per query-key pair."""
        return 4.0 * self.heads * self.head_dim * pairs

    def kv_elements(self, context: Count) -> Count:
        """Elements of K and V that a decode step must read at ``context`` tokens: 2·K·h per token in reach."""
        reach = context if self.window is None else np.minimum(context, float(self.window))
        return 2.0 * self.kv_heads * self.head_dim * reach


class Mlp(msgspec.Struct, frozen=True, kw_only=True):
    """A feed-forward network: 3·d·f weights when gated (SwiGLU, GeGLU), else 2·d·f."""

    intermediate: int
    gated: bool = True
    bias: bool = False

    def parameters(self, hidden: int) -> dict[Role, int]:
        """Weights by role: gate and up are ``mlp_in``, down is ``mlp_out``."""
        ways = 2 if self.gated else 1
        return {
            "mlp_in": ways * self.intermediate * (hidden + (1 if self.bias else 0)),
            "mlp_out": self.intermediate * hidden + (hidden if self.bias else 0),
        }


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """``count`` equal layers: a mixer, an MLP and ``norm_weights`` weights of layer norms."""

    mixer: Attention
    mlp: Mlp
    norm_weights: int
    count: int


class Architecture(msgspec.Struct, frozen=True, kw_only=True):
    """A decoder: embedding, blocks, final norm, lm_head.

    ``not_modelled`` names each part whose cost is left out.
    """

    family: str
    hidden: int
    vocab: int
    tied: bool
    blocks: tuple[Block, ...]
    final_norm: int
    max_context: int | None = None
    not_modelled: tuple[str, ...] = ()

    @property
    def layers(self) -> int:
        """How many blocks there are in all."""
        return sum(block.count for block in self.blocks)

    def parameters(self) -> dict[Role, int]:
        """All weights by role. A tied head has no weights of its own: its role is absent."""
        total: dict[Role, int] = {"embedding": self.vocab * self.hidden, "norm": self.final_norm}
        for block in self.blocks:
            total["norm"] += block.norm_weights * block.count
            for part in (block.mixer.parameters(self.hidden), block.mlp.parameters(self.hidden)):
                for role, weights in part.items():
                    total[role] = total.get(role, 0) + weights * block.count
        if not self.tied:
            total["lm_head"] = self.vocab * self.hidden
        return total

    @property
    def non_embedding(self) -> int:
        """Weights other than the input embedding and lm_head: the P of the attention crossover."""
        return sum(n for role, n in self.parameters().items() if role not in ("embedding", "lm_head"))
