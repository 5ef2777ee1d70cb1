"""A stack of layers that sees all its tokens at once: a text or audio encoder, or a vision tower."""

from __future__ import annotations

import msgspec

from phasewise.model.passes import Count


class Tower(msgspec.Struct, frozen=True, kw_only=True):
    """What a tower stores and costs.

    Attributes:
        name: as shown.
        parameters: all its weights, a projector's included.
        matmul: weights that each of its tokens multiplies with.
        width: sum over its layers with full attention of heads × head_dim.
        windowed: the same over layers that attend within windows of ``window`` tokens.
        window: tokens of a window.
        tokens: how many tokens it sees per request; None when they are the prompt's.
        once: FLOPs per request beside that: a projector on fewer tokens, an audio stem.
        out: tokens of the prompt that an image becomes.
    """

    name: str
    parameters: int
    matmul: int
    width: int
    windowed: int = 0
    window: int = 0
    tokens: int | None = None
    once: float = 0.0
    out: int = 0

    def flops(self, tokens: Count) -> Count:
        """Of the matmuls: 2·P·N."""
        return 2.0 * self.matmul * tokens + self.once

    def attention_flops(self, tokens: Count) -> Count:
        """Attention in both directions: 4·H·h·N² a layer, or 4·H·h·N·w in windows."""
        near = tokens if self.window == 0 else self.window
        return 4.0 * tokens * (self.width * tokens + self.windowed * near)
