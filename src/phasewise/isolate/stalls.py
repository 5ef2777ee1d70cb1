"""What prompts sent into running decodes cost them, read off the decodes' arrivals."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from phasewise import fitting
from phasewise.isolate.crowd import Stream
from phasewise.isolate.held import Times, times
from phasewise.isolate.prefill import quantity
from phasewise.record.sweep import Chunk, Interference

QUIET, LEAST_QUIET = 12, 5
"""Steps before a prompt whose gaps say how long an undisturbed step is: usually, and at least."""

SLOW = 1.15
"""A step this many times as long as an undisturbed one was slowed."""

SCATTER = 4.0
"""... unless undisturbed steps scatter so widely that this many times their median deviation is more."""

MOST_OF = 0.8
"""Part of the decodes that must show what a prompt cost; the reads of some may have come too late to tell."""

SAME_MOMENT = 0.2
"""Part of a step within which a prompt's first token and a decode's token came from one step."""


class Seen(NamedTuple):
    """One prompt among decodes.

    Attributes:
        tokens: of the prompt.
        step: undisturbed step before it, seconds.
        stall: what each decode lost in all, seconds.
        slow: steps that were slowed.
        slowest: longest gap, seconds.
        ttft: of the prompt, seconds.
        shared: whether its first token came with tokens of the decodes.
    """

    tokens: int
    step: float
    stall: float
    slow: int
    slowest: float
    ttft: float
    shared: bool


def seen(decodes: Sequence[Stream], prompts: Sequence[Stream]) -> list[Seen]:
    """What each of ``prompts`` cost ``decodes``; those that were not among them all the time are left out."""
    every = [times(stream) for stream in decodes]
    start = max(stream.exchange.first_at for stream in decodes)
    end = min(stream.exchange.last_at for stream in decodes)
    found = []
    for prompt in sorted(prompts, key=lambda stream: stream.exchange.sent_at):
        each = [one for one in (_one(stream, prompt, start, end) for stream in every) if one]
        if len(each) >= MOST_OF * len(every):
            found.append(_middle(each))
    return found


def _one(decode: Times, prompt: Stream, start: float, end: float) -> Seen | None:
    """What one decode shows."""
    sent, first = prompt.exchange.sent_at, prompt.exchange.first_at
    at, tokens = decode
    before = int(np.searchsorted(at, sent)) - 1
    quiet = slice(max(before - QUIET, int(np.searchsorted(at, start))), before + 1)
    if before - quiet.start < LEAST_QUIET:
        return None
    gaps = np.diff(at[quiet]) / np.diff(tokens[quiet])
    step = float(np.median(gaps))
    after = int(np.searchsorted(at, first + step / 2))
    if after >= len(at) or at[after] > end:
        return None
    each = np.diff(at[before : after + 1]) / np.diff(tokens[before : after + 1])
    slow = max(SLOW * step, step + SCATTER * float(np.median(np.abs(gaps - step))))
    return Seen(
        tokens=prompt.prompt_tokens,
        step=step,
        stall=float(at[after] - at[before] - step * (tokens[after] - tokens[before])),
        slow=int((each > slow).sum()),
        slowest=float(each.max()),
        ttft=prompt.exchange.ttft,
        shared=bool(np.abs(at[before : after + 1] - first).min() < SAME_MOMENT * step),
    )


def _middle(each: Sequence[Seen]) -> Seen:
    """What the decodes, which share every step, show together."""
    return Seen(
        tokens=each[0].tokens,
        step=statistics.median(one.step for one in each),
        stall=statistics.median(one.stall for one in each),
        slow=round(statistics.median(one.slow for one in each)),
        slowest=statistics.median(one.slowest for one in each),
        ttft=each[0].ttft,
        shared=sum(one.shared for one in each) > len(each) / 2,
    )


def interference(found: Sequence[Seen]) -> Interference | None:
    """The fit of stalls; None when nothing was stalled, or at one length only."""
    costly = [one for one in found if one.stall > 0]
    if len({one.tokens for one in costly}) < 2:
        return None
    rows = [[float(max(1, one.slow)), float(one.tokens), float(one.tokens) ** 2] for one in costly]
    resolution = 0.02 * statistics.median(one.step for one in costly)
    for columns in ((0, 1, 2), (0, 1), (1,)):
        try:
            fit = fitting.nonnegative(
                [[row[c] for c in columns] for row in rows], [one.stall for one in costly], resolution=resolution
            )
        except ValueError:
            continue
        break
    else:
        return None
    unknown = fitting.Interval(0.0, 0.0, math.inf)
    step, token, square = (fit.coefficient(columns.index(c)) if c in columns else unknown for c in range(3))
    source = f"fit of {fit.samples} stalls at {len({one.tokens for one in costly})} lengths"
    return Interference(
        per_step=quantity(step, "s", source),
        per_token=quantity(token, "s/token", source),
        per_token2=quantity(square, "s/token^2", source),
        residual=fit.residual,
    )


def chunk(found: Sequence[Seen]) -> Chunk | None:
    """How many prompt tokens a step takes, from the steps that prompts made slow; None when the counts disagree."""
    groups: dict[int, list[Seen]] = {}
    for one in found:
        groups.setdefault(one.tokens, []).append(one)
    counts = {tokens: round(statistics.median(one.slow for one in group)) for tokens, group in groups.items()}
    slowed = {tokens: slow for tokens, slow in counts.items() if slow > 0}
    if not slowed:
        return None
    last = [one.shared for one in found if one.slow > 0]
    shared = None if 0.2 < statistics.fmean(last) < 0.8 else statistics.fmean(last) >= 0.8
    least = max(math.ceil(tokens / slow) for tokens, slow in slowed.items())
    cut = [math.ceil(tokens / (slow - 1)) - 1 for tokens, slow in slowed.items() if slow > 1]
    if not cut:
        return Chunk(least=max(slowed), most=None, shared=shared)
    return Chunk(least=least, most=min(cut), shared=shared) if least <= min(cut) else None
