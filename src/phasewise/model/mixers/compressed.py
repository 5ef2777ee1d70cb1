"""DeepSeek-V4's attention: a window of recent tokens, and entries that each stand for many older ones.

Source: deepseek_v4 of transformers 5.24, whose docstrings cite the paper's sections.
"""

from __future__ import annotations

import numpy as np

from phasewise.model.mixers.indexer import Indexer
from phasewise.model.parts import Mixer, Operation, Weights
from phasewise.model.passes import Count, Pass


class Compressed(Mixer, frozen=True, kw_only=True):
    """``heads`` queries over one shared vector of ``head_dim`` per token, which is K and V at once.

    Attributes:
        heads, head_dim, q_rank: of the queries.
        window: recent tokens seen as they are.
        rate: tokens that one compressed entry stands for; 0 for a layer with the window alone.
        out_rank, out_groups: of the grouped output projection.
        compressor: weights that make the entries.
        indexer: chooses the entries that are seen (rate 4); None when all are (rate 128).
    """

    heads: int
    head_dim: int
    q_rank: int
    window: int
    rate: int
    out_rank: int
    out_groups: int
    compressor: int = 0
    indexer: Indexer | None = None

    def parameters(self, hidden: int) -> Weights:
        """d·qr + qr·H·h for queries, d·h for the shared vector; H·h·r and g·r·d for the grouped output."""
        width = self.heads * self.head_dim
        found: Weights = {
            "qkv": hidden * self.q_rank + self.q_rank * width + hidden * self.head_dim,
            "output": width * self.out_rank + self.out_groups * self.out_rank * hidden,
            "norm": self.q_rank + self.head_dim + self.heads,
            "recurrence": self.compressor,
        }
        if self.indexer:
            found["indexer"] = self.indexer.weights
        return found

    @property
    def kv_per_token(self) -> float:
        """h/rate elements, and the indexer's share; the window does not grow with the context."""
        return (self.head_dim / self.rate if self.rate else 0.0) + (self.indexer.kv_per_token if self.indexer else 0.0)

    def kv_held(self, context: Count) -> Count:
        """The entries, and the tokens of the window."""
        return self.kv_per_token * context + self.head_dim * np.minimum(context, float(self.window))

    @property
    def kv_words(self) -> str:
        """head_dim / rate."""
        own = f"{self.head_dim} / {self.rate}" if self.rate else "0 (a window alone)"
        return f"({own} + {self.indexer.dim} / {self.indexer.every})" if self.indexer else own

    def _entries(self, step: Pass) -> tuple[Count, Count]:
        """Query-entry pairs of one request, and entries read."""
        if not self.rate:
            return 0.0, 0.0
        if self.indexer is None:
            return step.pairs() / self.rate, step.reach() / self.rate
        keep = self.indexer.keep
        return step.pairs(keep * self.rate) / self.rate, np.minimum(step.reach() / self.rate, keep * step.tokens)

    def operations(self, step: Pass, kv_element_bytes: float) -> tuple[Operation, ...]:
        """4·H·h FLOPs for each pair of a query and a token of the window or an entry."""
        pairs, entries = self._entries(step)
        flops = 4.0 * self.heads * self.head_dim * (step.pairs(self.window) + pairs) * step.batch
        written = np.minimum(step.written, float(self.window)) + (step.written / self.rate if self.rate else 0.0)
        moved = self.head_dim * (step.reach(self.window) + entries + written) * step.batch
        attention = Operation("attention", flops, 0.0, moved * kv_element_bytes)
        return (attention, self.indexer.operation(step, kv_element_bytes)) if self.indexer else (attention,)
