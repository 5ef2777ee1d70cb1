"""Speculative decoding: a draft proposes tokens, one verify step of the model accepts some of them."""

from __future__ import annotations

import msgspec
import numpy as np

from phasewise.model import work
from phasewise.model.model import Model
from phasewise.model.passes import Count
from phasewise.predict.parallel.spread import Spread, Step
from phasewise.predict.roofline import floor

DRAFT_COST = 0.05
"""Assumed time of one proposed token, in plain steps of the model: the paper's c, which stays below it there."""

_EVERY, _LARGEST = 4096, 2**20
"""Batches that are searched one by one, and the largest one."""


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """What proposes.

    Attributes:
        tokens: proposed for each step of the model.
        acceptance: chance that a proposed token is accepted, each as likely as any other.
        cost: time of one proposed token in plain steps of the model, where ``model`` is None.
        model: the model that proposes, each token by a decode step of its own on one device.
    """

    tokens: int
    acceptance: float
    cost: float = DRAFT_COST
    model: Model | None = None


def tokens_per_step(proposed: int, acceptance: float) -> float:
    """Expected tokens that a verify step yields: (1 − α^(k+1)) / (1 − α); k + 1 when every token is accepted.

    Source: Leviathan et al., arXiv 2211.17192, equation 1.
    """
    if acceptance >= 1:
        return proposed + 1.0
    return (1 - float(acceptance) ** (proposed + 1)) / (1 - acceptance)


def verify(spread: Spread, draft: Draft, context: Count, batch: Count = 1.0) -> Step:
    """The model's step over the token before and the proposed ones: the weights are read once for all of them."""
    return spread.decode(context, batch, draft.tokens + 1.0)


def proposing(spread: Spread, draft: Draft, context: Count, batch: Count = 1.0) -> Count:
    """Seconds in which the draft proposes its tokens."""
    if draft.model is not None:
        return draft.tokens * floor(work.decode(draft.model, context, batch), spread.roof)
    return draft.tokens * draft.cost * spread.decode(context, batch).time_s


def gain(spread: Spread, draft: Draft, context: Count, batch: Count = 1.0) -> Count:
    """How many times as many tokens a second there are with the draft; under 1 it does not pay."""
    spent = verify(spread, draft, context, batch).time_s + proposing(spread, draft, context, batch)
    return tokens_per_step(draft.tokens, draft.acceptance) * spread.decode(context, batch).time_s / spent


def break_even(spread: Spread, draft: Draft, context: float) -> int | None:
    """The largest batch at which it pays; 0 when it pays at none, None when it pays at all up to 2^20."""
    sizes = np.unique(np.concatenate([np.arange(1, _EVERY), np.geomspace(_EVERY, _LARGEST, 200).astype(int)]))
    pays = np.asarray(gain(spread, draft, context, sizes.astype(float))) > 1
    if pays[-1]:
        return None
    if not pays.any():
        return 0
    last = int(np.flatnonzero(pays)[-1])
    between = np.arange(sizes[last], sizes[last + 1])
    return int(between[np.asarray(gain(spread, draft, context, between.astype(float))) > 1][-1])
