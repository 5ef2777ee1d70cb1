"""Chunked prefill: a prompt goes through in pieces, each in one step with the decodes that are running."""

from __future__ import annotations

import numpy as np

from phasewise.model.passes import Pass
from phasewise.predict.parallel.spread import Spread, Step


def mixed(spread: Spread, prompt: int, cached: int, chunk: int | None, *, decodes: float, context: float) -> Step:
    """The steps that take a prompt in, as arrays, one element a chunk (one step for all of it without ``chunk``).

    Args:
        prompt, cached: tokens of the prompt, and how many of them are cached.
        chunk: tokens of the prompt in a step.
        decodes: requests that get a token in each of these steps, after ``context`` tokens each.

    The weights are read once for both, and each chunk reads the K and V of those before it.
    """
    size = chunk or prompt - cached
    past = np.arange(float(cached), float(prompt), float(size))
    passes = [Pass(np.minimum(float(size), prompt - past), past)]
    if decodes:
        passes.append(Pass(1.0, context, decodes, decode=True))
    return spread.step(*passes)
