"""What the time budget buys: which lengths, in which order, and when to stop."""

from __future__ import annotations

import math
from collections.abc import Sequence

PREFILL_SHARE = 0.55
"""Part of the budget that prefill may use when decode is measured too; decode gets all that prefill leaves."""

SHORTEST = 16
"""Tokens of the shortest prompt: short prompts pin the overhead."""

MARGIN = 16
"""Tokens kept free below the model's limit, for what a server adds to a prompt (BOS, template)."""

UNKNOWN_LIMIT = 8192
"""Longest prompt tried when the server does not say what it takes."""

MOST_LENGTHS = 8

LEAST_KEPT = 5
"""Samples per shape before sampling may stop early; fewer only when the budget ends first."""

PASSES = 3
"""Requests per shape that must fit: one that may be given up as warm-up, and two that repeat each other."""

TIGHT = 0.01
"""Sampling stops when the interval is within this part of its value, to either side."""

WARM_TOLERANCE = 0.10
WARM_TOLERANCE_S = 1e-3
MOST_WARMUPS = 3


def longest_prompt(max_context: int | None, max_prompt: int | None, answer: int) -> int:
    """Longest prompt that leaves room for ``answer`` tokens, in tokens; at least 1."""
    if max_context is None:
        return max_prompt or UNKNOWN_LIMIT
    room = max_context - answer - MARGIN
    return max(1, min(room, max_prompt or room))


def ladder(longest: int) -> list[int]:
    """Prompt lengths from short to ``longest``, ascending.

    Powers of two up to three quarters of ``longest``, and ``longest`` itself: a quadratic through noise is pinned best
    by the ends and the middle (D-optimal for a parabola), so the long half is the dense one. The first step is small:
    an engine so slow that it affords but one shall have a second length.
    """
    if longest < 512:
        parts = [max(1, longest // k) for k in (8, 4, 2, 1)]
        return sorted({min(SHORTEST, parts[0]), *parts})
    powers = [2**k for k in range(9, 64) if 2**k <= 0.75 * longest]
    return [SHORTEST, 2 * SHORTEST, 64, 256, *powers, longest]


def telling(lengths: Sequence[int]) -> list[int]:
    """``lengths`` in the order in which they tell most: shortest, longest, the half of that, then the widest gap."""
    if not lengths:
        return []
    rest = sorted(set(lengths))
    chosen = [rest.pop(0)]
    if rest:
        chosen.append(rest.pop())
    if rest:
        half = min(rest, key=lambda n: abs(n - chosen[1] / 2))
        rest.remove(half)
        chosen.append(half)
    while rest:
        widest = max(rest, key=lambda n: min(abs(math.log(n / c)) for c in chosen))
        rest.remove(widest)
        chosen.append(widest)
    return chosen


def first_kept(times: Sequence[float], discard: int) -> int:
    """Index of the first of ``times`` (requests of one shape, in order) that is no warm-up.

    The first ``discard`` never count. From there on a request counts when the next is not over 10% (and 1 ms) below it:
    times have stopped falling. At most three are given up: a machine that never settles is noisy, not cold.
    """
    for index in range(max(1, discard), min(len(times), MOST_WARMUPS + 1)):
        if not _fell(times[index - 1], times[index]):
            return max(discard, index - 1)
    return discard if len(times) <= 1 else min(len(times) - 1, MOST_WARMUPS)


def _fell(before: float, after: float) -> bool:
    return before - after > max(WARM_TOLERANCE_S, WARM_TOLERANCE * after)
