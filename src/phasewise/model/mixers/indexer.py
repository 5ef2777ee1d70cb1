"""The indexer of sparse attention: it scores every cached token and lets the attention read the best few.

DeepSeek V3.2 and GLM-5 choose tokens, MiniMax M3 and others choose blocks of them. Source: DeepSeek-V3.2-Exp's paper
(lightning indexer), and the modeling files of transformers 5.24 (deepseek_v32, minimax_m3_vl).
"""

from __future__ import annotations

import msgspec

from phasewise.model.parts import Operation
from phasewise.model.passes import Count, Pass


class Indexer(msgspec.Struct, frozen=True, kw_only=True):
    """``heads`` query heads of ``dim`` that score one key per token; the best ``keep`` tokens are attended to.

    Attributes:
        heads, dim: of the indexer's queries; its key is shared by them.
        keep: tokens that a query attends to (chosen blocks times their size).
        weights: parameters of its projections and norms.
        every: tokens that one cached key stands for: 1, or the compression of the keys.
        own_keys: whether it caches a key of its own, or scores those of the attention.
    """

    heads: int
    dim: int
    keep: int
    weights: int
    every: int = 1
    own_keys: bool = True

    @property
    def kv_per_token(self) -> float:
        """Elements of its own key cache that a token adds."""
        return self.dim / self.every if self.own_keys else 0.0

    def operation(self, step: Pass, kv_element_bytes: float) -> Operation:
        """Scores of all cached keys: 2·heads·dim FLOPs for each query-key pair, every cached key read once."""
        flops: Count = 2.0 * self.heads * self.dim * step.pairs() / self.every * step.batch
        moved = self.kv_per_token * (step.reach() + step.written) * step.batch
        return Operation("indexer", flops, 0.0, moved * kv_element_bytes)
