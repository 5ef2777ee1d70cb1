"""A mixture of experts: routed ones, of which a token uses a few, and shared ones that every token uses."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from phasewise.model.parts import FeedForward, Role, Weights
from phasewise.model.passes import Count

_GROUPS = 24
"""Groups of equally popular experts that a skewed routing is summed over: within 0.5% of the sum over experts."""


class Moe(FeedForward, frozen=True, kw_only=True):
    """``chosen`` of ``experts`` experts for each token, beside ``shared`` intermediate units for all.

    Attributes:
        experts, chosen: E and k.
        intermediate: units of one expert.
        gated: gate, up and down in each expert, else up and down.
        width: what experts take and give where it is not the hidden size (latent experts), with the projections into
            and out of it.
        shared: intermediate units of all shared experts together.
        shared_gated, shared_bias: the same as ``gated`` and ``bias`` for the shared ones.
        shared_gate: a gate on the shared expert's output (Qwen2-MoE and later).
        bias: biases in the experts.
        router_extra: weights of the router beside hidden × experts (biases, scales).
        extra: weights of norms in the mixture.
        skew: of the routing, see ``distinct``.
    """

    experts: int
    chosen: int
    intermediate: int
    gated: bool = True
    width: int | None = None
    shared: int = 0
    shared_gated: bool = True
    shared_bias: bool = False
    shared_gate: bool = False
    bias: bool = False
    router_extra: int = 0
    extra: int = 0
    skew: float = 0.0

    def _expert(self, hidden: int) -> int:
        width, ways = hidden if self.width is None else self.width, 2 if self.gated else 1
        return (ways + 1) * width * self.intermediate + (ways * self.intermediate + width if self.bias else 0)

    def parameters(self, hidden: int) -> Weights:
        """Routed experts apart from what every token uses."""
        latent = 0 if self.width is None else hidden * self.width
        ways = 2 if self.shared_gated else 1
        found: Weights = {
            "router": hidden * self.experts + self.router_extra,
            "experts": self.experts * self._expert(hidden),
        }
        if self.shared or latent:
            biases = (ways * self.shared, hidden) if self.shared_bias else (0, 0)
            found["shared_in"] = ways * hidden * self.shared + latent + (hidden if self.shared_gate else 0) + biases[0]
            found["shared_out"] = hidden * self.shared + latent + biases[1]
        if self.extra:
            found["norm"] = self.extra
        return found

    def active(self, hidden: int) -> Weights:
        """As ``parameters``, with k of the E experts."""
        return {**self.parameters(hidden), "experts": self.chosen * self._expert(hidden)}

    def touched(self, hidden: int, tokens: Count) -> dict[Role, Count]:
        """As ``parameters``, with the experts that some of ``tokens`` tokens are expected to choose."""
        return {**self.parameters(hidden), "experts": self.distinct(tokens) * self._expert(hidden)}

    def distinct(self, tokens: Count) -> Count:
        """Expected number of different experts that ``tokens`` tokens choose.

        With every expert equally likely it is E·(1 − (1 − k/E)^T). A positive ``skew`` makes the expert of rank i
        popular in proportion to i^−skew, so that fewer are met; −1 is routing so balanced that no expert is chosen
        twice before all are: min(E, k·T).
        """
        if self.skew < 0:
            return np.minimum(float(self.experts), self.chosen * tokens)
        if self.skew == 0:
            return self.experts * _hit(self.chosen / self.experts, tokens)
        total: Count = 0.0
        for count, probability in _popularity(self.experts, self.chosen, self.skew):
            total = total + count * _hit(probability, tokens)
        return total


def _hit(probability: float, tokens: Count) -> Count:
    """1 − (1 − p)^T."""
    if probability >= 1.0:
        return np.minimum(1.0, tokens)
    hit: Count = -np.expm1(tokens * np.log1p(-probability))
    return hit


def _popularity(experts: int, chosen: int, skew: float) -> list[tuple[int, float]]:
    """Groups of experts, each with its size and the chance that a token chooses one of them; chances sum to k."""
    chances = np.arange(1.0, experts + 1.0) ** -skew
    # No expert is chosen twice by a token: what exceeds 1 goes to the others.
    fixed = np.zeros(experts, dtype=bool)
    while True:
        free = chances * ~fixed
        scaled = np.where(fixed, 1.0, free * (chosen - fixed.sum()) / free.sum())
        over = (scaled > 1.0) & ~fixed
        if not over.any():
            break
        fixed |= over
    edges = np.unique(np.geomspace(1, experts + 1, _GROUPS + 1).astype(int))
    return [(int(b - a), float(scaled[a - 1 : b - 1].mean())) for a, b in pairwise(edges)]
