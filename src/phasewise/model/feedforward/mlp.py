"""A dense feed-forward network."""

from __future__ import annotations

from phasewise.model.parts import FeedForward, Weights


class Mlp(FeedForward, frozen=True, kw_only=True):
    """3·d·f weights when gated (SwiGLU, GeGLU), else 2·d·f."""

    intermediate: int
    gated: bool = True
    bias: bool = False

    def parameters(self, hidden: int) -> Weights:
        """Weights by role: gate and up are ``mlp_in``, down is ``mlp_out``."""
        ways = 2 if self.gated else 1
        return {
            "mlp_in": ways * self.intermediate * (hidden + (1 if self.bias else 0)),
            "mlp_out": self.intermediate * hidden + (hidden if self.bias else 0),
        }
