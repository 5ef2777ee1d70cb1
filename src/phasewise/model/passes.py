"""One pass of the model over some requests, for both phases, and which tokens meet which in it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Count = float | npt.NDArray[np.float64]
"""A number, or an array of them: the work of a whole grid is counted in one call."""


class Pass(NamedTuple):
    """``tokens`` new tokens for each of ``batch`` requests, after ``past`` cached ones.

    A prefill has tokens = prompt - cached and past = cached; a decode step tokens = 1 and past = context; the verify
    step of a draft of k tokens is a decode of k + 1. ``decode`` also says the two conventions in which the phases
    differ: every new token needs logits (in a prefill only the last), and the K and V that are written are not counted
    (in a prefill they are). ``source`` is how many tokens of an encoder the decoder's cross-attention sees.
    """

    tokens: Count
    past: Count = 0.0
    batch: Count = 1.0
    decode: bool = False
    source: Count = 0.0

    @property
    def all_tokens(self) -> Count:
        """New tokens of all requests."""
        return self.tokens * self.batch

    @property
    def logits(self) -> Count:
        """Positions that need logits, all requests."""
        return self.all_tokens if self.decode else self.batch + 0.0 * self.tokens

    @property
    def written(self) -> Count:
        """Tokens of each request whose K and V are counted as written."""
        return 0.0 * self.tokens if self.decode else self.tokens

    @property
    def _first(self) -> Count:
        """Where the new tokens begin, so that token i reaches from i to i + 1 on a continuous line.

        A prefill of N tokens has N²/2 pairs on it: half the diagonal, as in the published counts. In a decode step a
        token's meeting with itself is left out, so that it has ``past`` pairs.
        """
        return self.past - 0.5 if self.decode else self.past

    def pairs(self, window: float | None = None) -> Count:
        """Query-key pairs of one request under causal attention: N²/2 + p·N, and no more than ``window`` keys each."""
        first = self._first
        if window is None:
            return self.tokens * (first + self.tokens / 2)
        growing = np.clip(window - first, 0.0, self.tokens)
        seen: Count = growing * (first + growing / 2) + window * (self.tokens - growing)
        return seen

    def pairs_in_chunks(self, chunk: float) -> Count:
        """The same when a token sees only those before it in its own chunk of ``chunk`` tokens (Llama 4)."""
        first = np.maximum(self._first, 0.0)
        return _within(first + self.tokens, chunk) - _within(first, chunk)

    def reach(self, window: float | None = None) -> Count:
        """Cached tokens of one request that some new token sees."""
        return self.past + 0.0 * self.tokens if window is None else np.minimum(self.past + 0.0 * self.tokens, window)

    def reach_in_chunk(self, chunk: float) -> Count:
        """Cached tokens in the chunk in which the new tokens begin."""
        return self.past % chunk + 0.0 * self.tokens

    def reach_of_choice(self, most: float) -> Count:
        """Cached tokens read when each new token chooses ``most`` of them for itself."""
        return np.minimum(self.past, most * self.tokens)


def _within(end: Count, chunk: float) -> Count:
    """Pairs of tokens 0 to ``end`` within chunks."""
    rest = end % chunk
    return (end - rest) * chunk / 2 + rest * rest / 2
