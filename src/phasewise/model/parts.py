"""What a block is made of: a mixer and a feed-forward network, each able to say what it stores and what it costs.

All counts are of one layer. A part gives its parameters by role (so that a format can say their bytes), those that one
token multiplies with, those that a step touches, and, for mixers, the work that no weight explains: scores over cached
tokens, a recurrent state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

import msgspec

from phasewise.model.passes import Count, Pass

Role = Literal[
    "embedding",  # a lookup; no matmul
    "position",  # learned positions: a lookup
    "qkv",
    "output",
    "indexer",  # chooses the tokens that sparse attention reads
    "cross",  # makes K and V of an encoder's output, once per request
    "recurrence",  # convolutions, decays and steps of a recurrent mixer
    "mlp_in",
    "mlp_out",
    "router",
    "experts",  # routed experts: a step touches some of them
    "shared_in",  # experts that every token uses, and other always-on parts of a mixture
    "shared_out",
    "norm",
    "lm_head",
    "encoder",
    "vision",
    "prediction",  # layers for multi-token prediction
]
"""What a group of weights is for; bytes and FLOPs are added up by it."""

Weights = dict[Role, int]


class Operation(NamedTuple):
    """One kind of operation: its FLOPs, weight bytes, and bytes of KV cache or recurrent state."""

    name: str
    flops: Count
    weight_bytes: Count = 0.0
    kv_bytes: Count = 0.0

    def times(self, count: float) -> Operation:
        """The operation ``count`` times."""
        return Operation(self.name, self.flops * count, self.weight_bytes * count, self.kv_bytes * count)


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """What mixers and feed-forward networks have in common."""

    def parameters(self, hidden: int) -> Weights:
        """Weights by role."""
        raise NotImplementedError

    def active(self, hidden: int) -> Weights:
        """Weights by role that one token multiplies with."""
        return self.parameters(hidden)

    def touched(self, hidden: int, tokens: Count) -> dict[Role, Count]:
        """Weights by role that a step of ``tokens`` tokens reads."""
        return dict(self.parameters(hidden))


class Mixer(Part, frozen=True, kw_only=True):
    """What mixes tokens: attention of some kind, a recurrence, or nothing."""

    @property
    def kv_per_token(self) -> float:
        """Elements of KV cache that a token of context adds."""
        return 0.0

    def kv_held(self, context: Count) -> Count:
        """Elements of KV cache that ``context`` tokens take; a window holds no more than its own."""
        return self.kv_per_token * context

    @property
    def kv_words(self) -> str:
        """How ``kv_per_token`` comes about, for --explain: ``8 heads × 128 × 2``."""
        return "0"

    @property
    def state_bytes(self) -> float:
        """Bytes of recurrent state that a request holds, however long its context."""
        return 0.0

    @property
    def kv_per_source(self) -> float:
        """Elements of K and V that are held for each token of an encoder."""
        return 0.0

    def operations(self, step: Pass, kv_element_bytes: float) -> tuple[Operation, ...]:
        """The work over cached tokens and states of all the requests of ``step``."""
        return ()


class FeedForward(Part, frozen=True, kw_only=True):
    """What works on each token alone: an MLP, a mixture of experts, or nothing."""


class NoMixer(Mixer, frozen=True, kw_only=True):
    """A layer without a mixer."""

    def parameters(self, hidden: int) -> Weights:
        """None."""
        return {}


class NoFeedForward(FeedForward, frozen=True, kw_only=True):
    """A layer without a feed-forward network."""

    def parameters(self, hidden: int) -> Weights:
        """None."""
        return {}


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """``count`` equal layers: a mixer, a feed-forward network and ``norm_weights`` weights of layer norms.

    ``dormant`` layers hold weights but do no work: cross-attention to an image where none is given.
    """

    mixer: Mixer
    mlp: FeedForward
    norm_weights: int
    count: int
    dormant: bool = False


Layer = tuple[Mixer, FeedForward, int]
"""One layer: its mixer, its feed-forward network, its weights of norms."""


def stack(layers: Iterable[Layer]) -> tuple[Block, ...]:
    """The blocks that ``layers`` make: equal ones are counted together, in the order of their first."""
    return tuple(
        Block(mixer=mixer, mlp=mlp, norm_weights=norms, count=count)
        for (mixer, mlp, norms), count in Counter(layers).items()
    )


def add(total: dict[Role, Any], part: Mapping[Role, Any], times: int = 1) -> None:
    """Add ``times`` the weights of ``part`` to ``total``, role by role."""
    for role, weights in part.items():
        total[role] = total.get(role, 0) + weights * times
