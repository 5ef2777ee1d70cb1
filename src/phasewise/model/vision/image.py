"""The image that a vision tower sees, and the layers that towers share."""

from __future__ import annotations

from typing import NamedTuple


class Image(NamedTuple):
    """Height and width in pixels."""

    height: int
    width: int

    def patches(self, size: int, multiple: int = 1) -> int:
        """Patches of ``size`` pixels when each side is rounded to ``multiple`` of them, at least one."""
        step = size * multiple
        sides = (max(1, round(side / step)) * multiple for side in self)
        high, wide = sides
        return high * wide

    def tiles(self, size: int, most: int) -> int:
        """Square tiles of ``size`` pixels that cover it, no more than ``most``."""
        return min(most, -(-self.height // size) * -(-self.width // size))


def layer(hidden: int, intermediate: int, *, gated: bool = False, bias: bool = True, norm_bias: bool = True) -> int:
    """Weights of one layer: Q, K, V and output, an MLP, two norms."""
    ways = 2 if gated else 1
    attention = 4 * hidden * hidden + (4 * hidden if bias else 0)
    mlp = (ways + 1) * hidden * intermediate + (ways * intermediate + hidden if bias else 0)
    return attention + mlp + 2 * hidden * (2 if norm_bias else 1)
