"""RWKV's channel mixing: a plain MLP with a square gate, fed with a mix of this token and the one before."""

from __future__ import annotations

from phasewise.model.parts import FeedForward, Weights


class ChannelMix(FeedForward, frozen=True, kw_only=True):
    """2·d·f + d² weights, and two mixes."""

    intermediate: int

    def parameters(self, hidden: int) -> Weights:
        """Key and receptance are ``mlp_in``, value is ``mlp_out``."""
        return {
            "mlp_in": hidden * self.intermediate + hidden * hidden,
            "mlp_out": self.intermediate * hidden,
            "norm": 2 * hidden,
        }
