"""Multi-head latent attention (DeepSeek V2 and later, Kimi K2, GLM-5): one compressed vector per token is cached.

Formulas: DeepSeek-V2's paper (arXiv 2405.04434), section 2.1 and its appendix; keys of DeepseekV3Config.
"""

from __future__ import annotations

import numpy as np

from phasewise.model.mixers.indexer import Indexer
from phasewise.model.parts import Mixer, Operation, Weights
from phasewise.model.passes import Count, Pass


class Latent(Mixer, frozen=True, kw_only=True):
    """``heads`` heads over a latent of ``kv_rank`` and a rotary key of ``rope`` that all heads share.

    Attributes:
        heads: query heads.
        q_rank: rank of the query projection, None when it is a single matrix.
        kv_rank: elements of the latent that is cached in place of K and V.
        nope, rope, value: dimensions of a head without positions, with them, and of V.
        indexer: chooses what is attended to (DeepSeek V3.2, GLM-5), None for all.
        gate: weights of an output gate.
        bias: weights of biases.
    """

    heads: int
    q_rank: int | None
    kv_rank: int
    nope: int
    rope: int
    value: int
    indexer: Indexer | None = None
    gate: int = 0
    bias: int = 0

    def parameters(self, hidden: int) -> Weights:
        """d·qr + qr·H(n+r), or d·H(n+r); d(kvr+r) + kvr·H(n+v); H·v·d; norms of the two ranks."""
        query = self.heads * (self.nope + self.rope)
        down = hidden * query if self.q_rank is None else self.q_rank * (hidden + query)
        latent = hidden * (self.kv_rank + self.rope) + self.kv_rank * self.heads * (self.nope + self.value)
        found: Weights = {
            "qkv": down + latent + self.bias + self.gate,
            "output": self.heads * self.value * hidden,
            "norm": (self.q_rank or 0) + self.kv_rank,
        }
        if self.indexer:
            found["indexer"] = self.indexer.weights
        return found

    @property
    def kv_per_token(self) -> float:
        """kvr + r elements, and the indexer's key."""
        return self.kv_rank + self.rope + (self.indexer.kv_per_token if self.indexer else 0.0)

    @property
    def kv_words(self) -> str:
        """(latent + rotary key)."""
        return f"({self.kv_rank} + {self.rope}" + (f" + {self.indexer.kv_per_token:g})" if self.indexer else ")")

    def operations(self, step: Pass, kv_element_bytes: float) -> tuple[Operation, ...]:
        """The cheaper of the two ways to attend; the latent read in reach, and written.

        Absorbed, queries and outputs stay in the latent: 2·H·(2·kvr + r) FLOPs per pair, which decode does. Not
        absorbed, K and V are made again: 2·H·(n + r + v) per pair, plus 2·kvr·H·(n + v) for each cached token that
        is made again, which a prefill does. The two meet at some 170 new tokens on a long cache (DeepSeek-V3).
        """
        keep = self.indexer.keep if self.indexer else None
        pairs, read = step.pairs(keep), step.reach()
        if keep is not None:
            read = np.minimum(read, step.reach_of_choice(keep))
        absorbed: Count = 2.0 * self.heads * (2 * self.kv_rank + self.rope) * pairs
        again = 2.0 * self.kv_rank * self.heads * (self.nope + self.value) * read
        apart: Count = 2.0 * self.heads * (self.nope + self.rope + self.value) * pairs + again
        moved = (self.kv_rank + self.rope) * (read + step.written) * step.batch
        flops = np.minimum(absorbed, apart) * step.batch
        attention = Operation("attention", flops, 0.0, moved * kv_element_bytes)
        return (attention, self.indexer.operation(step, kv_element_bytes)) if self.indexer else (attention,)
