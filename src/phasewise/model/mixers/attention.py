"""Softmax attention with its own K and V per token: MHA, GQA and MQA, in full, in a window, in chunks, or sparse."""

from __future__ import annotations

import numpy as np

from phasewise.model.mixers.indexer import Indexer
from phasewise.model.parts import Mixer, Operation, Weights
from phasewise.model.passes import Count, Pass


class Attention(Mixer, frozen=True, kw_only=True):
    """``heads`` query heads that share ``kv_heads`` key and value heads.

    Attributes:
        heads, kv_heads, head_dim: head_dim is its own number: hidden/heads is wrong for Qwen3, Gemma, Mistral-Nemo.
        value_dim: of a head of V and of the output, where it differs from head_dim (MiMo).
        window: sliding window in tokens, None for none.
        chunk: size of the chunks that attention stays within (Llama 4), None for none.
        indexer: chooses what is attended to (MiniMax M3), None for all.
        qkv_bias, output_bias: biases on these projections.
        qk_norm: weights of query and key norms.
        gate: weights of an output gate, which is a part of the query projection (Qwen3-Next): zero without one.
        sinks: one learned logit a head (gpt-oss).
        own_kv: False for a layer that reads the KV cache of an earlier one (Gemma 3n), and projects no K and V.
        shared_key_value: K serves as V too (Gemma 4's full layers): one projection, two cached tensors.
    """

    heads: int
    kv_heads: int
    head_dim: int
    value_dim: int | None = None
    window: int | None = None
    chunk: int | None = None
    indexer: Indexer | None = None
    qkv_bias: bool = False
    output_bias: bool = False
    qk_norm: int = 0
    gate: int = 0
    sinks: bool = False
    own_kv: bool = True
    shared_key_value: bool = False

    @property
    def values(self) -> int:
        """Elements of a head of V."""
        return self.head_dim if self.value_dim is None else self.value_dim

    def parameters(self, hidden: int) -> Weights:
        """d·(h·(H+K) + v·K) for QKV, H·v·d for the output projection, plus biases, norms, gate, sinks, indexer."""
        qkv = self.heads * self.head_dim
        if self.own_kv:
            qkv += self.kv_heads * (self.head_dim + (0 if self.shared_key_value else self.values))
        found: Weights = {
            "qkv": hidden * qkv + (qkv if self.qkv_bias else 0) + self.gate,
            "output": self.heads * self.values * hidden + (hidden if self.output_bias else 0),
            "norm": self.qk_norm + (self.heads if self.sinks else 0),
        }
        if self.indexer:
            found["indexer"] = self.indexer.weights
        return found

    @property
    def _elements(self) -> int:
        """Elements of K and V of a token."""
        return self.kv_heads * (self.head_dim + self.values)

    @property
    def kv_per_token(self) -> float:
        """K·(h + v) elements, and the indexer's key; nothing where an earlier layer's cache is read."""
        return (self._elements if self.own_kv else 0.0) + (self.indexer.kv_per_token if self.indexer else 0.0)

    def kv_held(self, context: Count) -> Count:
        """No more tokens than the window or the chunk."""
        most = self.window if self.chunk is None else self.chunk
        return super().kv_held(context if most is None else np.minimum(context, float(most)))

    @property
    def kv_words(self) -> str:
        """heads × head_dim × 2."""
        if not self.own_kv:
            return "0 (an earlier layer's cache)"
        same = self.values == self.head_dim
        words = f"{self.kv_heads} heads × " + (f"{self.head_dim} × 2" if same else f"({self.head_dim} + {self.values})")
        return words + (f" + {self.indexer.kv_per_token:g}" if self.indexer and self.indexer.own_keys else "")

    def pairs(self, step: Pass) -> Count:
        """Query-key pairs of one request."""
        if self.chunk is not None:
            return step.pairs_in_chunks(self.chunk)
        return step.pairs(self._most)

    def reach(self, step: Pass) -> Count:
        """Cached tokens of one request whose K and V are read."""
        if self.chunk is not None:
            return step.reach_in_chunk(self.chunk)
        if self.indexer:
            return np.minimum(step.reach(self.window), step.reach_of_choice(self.indexer.keep))
        return step.reach(self.window)

    @property
    def _most(self) -> int | None:
        limits = [n for n in (self.window, self.indexer.keep if self.indexer else None) if n is not None]
        return min(limits) if limits else None

    def operations(self, step: Pass, kv_element_bytes: float) -> tuple[Operation, ...]:
        """QKᵀ and AV: 2·H·(h + v) FLOPs per query-key pair; K and V read in reach, and written."""
        flops = 2.0 * self.heads * (self.head_dim + self.values) * self.pairs(step) * step.batch
        written = step.written if self.own_kv else 0.0
        moved = self._elements * (self.reach(step) + written) * step.batch
        attention = Operation("attention", flops, 0.0, moved * kv_element_bytes)
        return (attention, self.indexer.operation(step, kv_element_bytes)) if self.indexer else (attention,)
