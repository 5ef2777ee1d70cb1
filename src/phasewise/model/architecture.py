"""The shape of a model: blocks, and what stands around them.

Sources of the formulas: docs/physics.md, which names the papers.
"""

from __future__ import annotations

import msgspec

from phasewise.model.feedforward.mlp import Mlp
from phasewise.model.mixers.attention import Attention
from phasewise.model.parts import Block, Role, Weights, add
from phasewise.model.passes import Count, Pass
from phasewise.model.tower import Tower

__all__ = ["Architecture", "Attention", "Block", "Count", "Mlp", "Pass", "Role", "Tower"]


class Architecture(msgspec.Struct, frozen=True, kw_only=True):
    """A decoder (embedding, blocks, final norm, lm_head) and, where there are any, its encoder and vision tower.

    Attributes:
        family: as shown.
        hidden, vocab: sizes of the embedding table.
        tied: whether lm_head is the embedding table.
        blocks: the decoder's layers.
        final_norm: weights of the final norm, and of others outside the blocks.
        positions: weights of a table of learned positions.
        head_extra: weights of the head beside vocab × hidden (biases).
        embedding_extra: weights of the embedding beside vocab × hidden (tables per layer).
        embedding_width: width of the tables where it is not the hidden size, with projections to it and back.
        encoder: what reads the prompt, or the audio, before the decoder starts.
        vision: the tower that turns images into tokens of the prompt; stated apart, costed where an image is given.
        prediction: weights of multi-token prediction layers; stated apart, no part of a plain step.
        max_context: as trained, when known.
        not_modelled: each part whose cost is left out.
        notes: what a reader should know of the count: missing keys, the publisher's convention.
    """

    family: str
    hidden: int
    vocab: int
    tied: bool
    blocks: tuple[Block, ...]
    final_norm: int
    positions: int = 0
    head_extra: int = 0
    embedding_extra: int = 0
    embedding_width: int | None = None
    encoder: Tower | None = None
    vision: Tower | None = None
    prediction: int = 0
    max_context: int | None = None
    not_modelled: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def layers(self) -> int:
        """How many blocks there are in all."""
        return sum(block.count for block in self.blocks)

    @property
    def working(self) -> tuple[Block, ...]:
        """The blocks that a step runs."""
        return tuple(block for block in self.blocks if not block.dormant)

    @property
    def source(self) -> int:
        """Encoded tokens that cross-attention sees in every request; 0 where they are the prompt's own."""
        return (self.encoder.tokens or 0) if self.encoder else (self.vision.out if self.vision else 0)

    def parameters(self) -> Weights:
        """All weights of the language model by role. A tied head has none of its own: its role is absent."""
        total = self._outside()
        for block in self.blocks:
            add(total, block.mixer.parameters(self.hidden), block.count)
            add(total, block.mlp.parameters(self.hidden), block.count)
        return total

    def all_parameters(self) -> Weights:
        """As ``parameters``, with what is stated apart: the vision tower and the prediction layers."""
        total = self.parameters()
        if self.vision:
            total["vision"] = self.vision.parameters
        if self.prediction:
            total["prediction"] = self.prediction
        return total

    def active(self) -> Weights:
        """The weights that one token uses, by role: as ``parameters``, with the experts that it chooses."""
        total = self._outside()
        for block in self.working:
            add(total, block.mixer.active(self.hidden), block.count)
            add(total, block.mlp.active(self.hidden), block.count)
        return total

    def touched(self, tokens: Count) -> dict[Role, Count]:
        """The weights that a step of ``tokens`` tokens reads, by role: all but the experts that none chooses."""
        total: dict[Role, Count] = dict(self._outside())
        for block in self.working:
            add(total, block.mixer.touched(self.hidden, tokens), block.count)
            add(total, block.mlp.touched(self.hidden, tokens), block.count)
        return total

    def _outside(self) -> Weights:
        norms = self.final_norm + sum(block.norm_weights * block.count for block in self.blocks)
        total: Weights = {"embedding": self.table + self.embedding_extra, "norm": norms}
        if self.embedding_width is not None:
            total["qkv"] = 2 * self.embedding_width * self.hidden
        if self.positions:
            total["position"] = self.positions
        if self.encoder:
            total["encoder"] = self.encoder.parameters
        if not self.tied:
            total["lm_head"] = self.table + self.head_extra
        return total

    @property
    def table(self) -> int:
        """Weights of vocabulary × width: of the embedding, and of lm_head."""
        return self.vocab * (self.hidden if self.embedding_width is None else self.embedding_width)

    @property
    def non_embedding(self) -> int:
        """Weights that a token uses outside the tables and lm_head: the P of the attention crossover."""
        return sum(n for role, n in self.active().items() if role not in ("embedding", "position", "lm_head"))

    def seen_by_decoder(self, step: Pass) -> Pass:
        """The pass as the decoder sees it: where an encoder reads the prompt, the decoder starts from one token.

        In a decode step the whole context is then counted as encoded: a generated token's K and V take as much.
        """
        if self.encoder is None or self.encoder.tokens is not None:
            return step._replace(source=float(self.source))
        if step.decode:
            return step._replace(past=0.0 * step.past, source=step.past)
        whole = step.past + step.tokens
        return step._replace(tokens=1.0 + 0.0 * whole, past=0.0 * whole, source=whole)
