"""Was a batch held: the window in which all streams ran, the time of its steps, and what proves it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from phasewise.isolate.crowd import Look, Stream
from phasewise.record.observation import CheckStatus

Array = npt.NDArray[np.float64]

TRIMMED = 2
"""Steps at the start of a window that are left out: the last prompt's prefill may still be in them."""

LEAST_BLOCK, MOST_BLOCK = 4, 16
"""A step is timed over so many tokens: bursts and late reads average out, and a hiccup spoils few blocks."""

PAUSE = 4.0
PAUSE_TOKENS = 3
"""A stream that gets nothing for so many steps, while the others get so many tokens, was preempted."""

SAME_STEP = 0.35
"""Part of a step within which tokens of one step reach the client."""

UNEVEN = 0.02
"""Part of the tokens by which streams of one batch may differ, beyond two at the window's ends."""

COALESCED = 0.5
"""Reads per token below which arrivals do not show the steps."""


class Times(NamedTuple):
    """The reads of one stream that held tokens: when (s), and tokens so far, after each."""

    at: Array
    tokens: Array

    def between(self, start: float, end: float) -> Times:
        """Those from ``start`` to ``end``."""
        inside = (self.at >= start) & (self.at <= end)
        return Times(self.at[inside], self.tokens[inside])


class Held(NamedTuple):
    """One batch as it was held.

    Attributes:
        start, end: all streams ran from here to here (``perf_counter`` seconds); empty when end <= start.
        step: seconds in which every stream gets a token; None when there is no window long enough.
        tokens: of one stream in the window.
        context: mean tokens of context of a request in it.
        together: most streams that ran at once.
        preempted: streams that stopped for many steps while others went on.
        full: tokens of context of all streams together when the first of these stopped; 0 when none did.
        proof, proved_by: whether all ran and none waited throughout, and what says so.
        differ: how much mean times per token differ between streams, as a part of their median.
        ramp: tokens that the first stream got before the window.
    """

    start: float
    end: float
    step: float | None
    tokens: int
    context: float
    together: int
    preempted: int
    full: int
    proof: CheckStatus
    proved_by: str
    differ: float
    ramp: int


def times(stream: Stream) -> Times:
    """When the tokens of a stream came. Of a read that held several, all came with the last of them."""
    exchange = stream.exchange
    arrivals = exchange.arrivals
    which = arrivals.are_tokens
    tokens = np.where(arrivals.tokens[which] > 0, arrivals.tokens[which], 1).astype(float)
    total = exchange.completion_tokens
    if total and tokens.size and tokens.sum() != total:
        tokens *= total / tokens.sum()  # text that waits for its character hides tokens; the count does not
    reads = arrivals.read[which]
    last = np.append(reads[1:] != reads[:-1], True) if reads.size else np.zeros(0, bool)
    return Times((arrivals.at[which] * 1e-9)[last], np.cumsum(tokens)[last])


def steps(inside: Times) -> Array:
    """Seconds per token over blocks of a stream; empty when it is too short."""
    if len(inside.at) < 2:
        return np.zeros(0)
    block = max(LEAST_BLOCK, min(MOST_BLOCK, int(inside.tokens[-1] - inside.tokens[0]) // 4))
    ends = np.searchsorted(inside.tokens, inside.tokens + block)
    begins = np.flatnonzero(ends < len(inside.at))
    ends = ends[begins]
    found: Array = (inside.at[ends] - inside.at[begins]) / (inside.tokens[ends] - inside.tokens[begins])
    return found


def held(streams: Sequence[Stream], looks: Sequence[Look], batch: int) -> Held:
    """What ``streams``, which were to run together as ``batch``, and the ``looks`` at the counters show."""
    every = [times(stream) for stream in streams]
    start = max(stream.exchange.first_at for stream in streams)
    end = min(stream.exchange.last_at for stream in streams)
    ramp = max(float(np.searchsorted(one.at, start)) for one in every)
    start = _trimmed(every, start)
    inside = [one.between(start, end) for one in every]
    blocks = [steps(one) for one in inside]
    whole = all(len(one) for one in blocks) and len(streams) == batch
    step = float(np.median(np.concatenate(blocks))) if whole else None
    stopped = _stops(every, step or _usual(every))
    preempted = len(stopped)
    proof, said = _proof(inside, looks, batch, step, start, end)
    means = [_mean(one) for one in inside if len(one.at) > 1]
    return Held(
        start=start,
        end=end,
        step=step,
        tokens=int(np.median([one.tokens[-1] - one.tokens[0] for one in inside if len(one.at)] or [0])),
        context=float(np.mean([_context(s, one) for s, one in zip(streams, inside, strict=True)])),
        together=_together(streams),
        preempted=preempted,
        full=_tokens_at(streams, every, min(stopped)) if stopped else 0,
        proof=proof if not preempted else "failed",
        proved_by=said if not preempted else f"{preempted} of {batch} streams stopped for over {PAUSE:.0f} steps",
        differ=(max(means) - min(means)) / float(np.median(means)) if means else 0.0,
        ramp=int(ramp),
    )


def _trimmed(every: Sequence[Times], start: float) -> float:
    """``start``, some steps later."""
    after = [one.at[one.at > start] for one in every]
    return max([start, *(float(at[TRIMMED - 1]) for at in after if len(at) > 4 * TRIMMED)])


def _mean(inside: Times) -> float:
    return float((inside.at[-1] - inside.at[0]) / max(1e-9, inside.tokens[-1] - inside.tokens[0]))


def _context(stream: Stream, inside: Times) -> float:
    """Mean context of the steps in the window: token k is made after prompt + k - 1 tokens."""
    if not len(inside.at):
        return float(stream.prompt_tokens)
    return stream.prompt_tokens + (float(inside.tokens[0] + inside.tokens[-1]) - 1) / 2


def _together(streams: Sequence[Stream]) -> int:
    """Most streams that were between their first and last token at one moment."""
    ends = sorted(
        [(stream.exchange.first_at, 1) for stream in streams] + [(stream.exchange.last_at, -1) for stream in streams]
    )
    return max(1, int(max(np.cumsum([change for _, change in ends]))))


def _usual(every: Sequence[Times]) -> float:
    """Typical gap between reads, where there is no window."""
    return float(np.median(np.concatenate([np.diff(one.at) for one in every] + [np.ones(1)])))


def _stops(every: Sequence[Times], step: float) -> list[float]:
    """When each stream that paused while the others went on had its last token before."""
    found = []
    for one in every:
        gaps = np.diff(one.at)
        usual = float(np.median(gaps)) if len(gaps) else 0.0
        for place in np.flatnonzero(gaps > PAUSE * max(step, usual)):
            since, until = one.at[place] + step, one.at[place + 1] - step
            others = [other.between(since, until).tokens for other in every if other is not one]
            went_on = [float(np.ptp(tokens)) if len(tokens) else 0.0 for tokens in others]
            if others and np.median(went_on) >= min(PAUSE_TOKENS, (until - since) / step / 2):
                found.append(float(one.at[place]))
                break
    return found


def _tokens_at(streams: Sequence[Stream], every: Sequence[Times], at: float) -> int:
    """Tokens of prompt and answer of all streams at one moment."""
    so_far = [float(one.tokens[place - 1]) if (place := np.searchsorted(one.at, at, "right")) else 0.0 for one in every]
    return round(sum(so_far)) + sum(stream.prompt_tokens for stream in streams)


def _proof(
    inside: Sequence[Times], looks: Sequence[Look], batch: int, step: float | None, start: float, end: float
) -> tuple[CheckStatus, str]:
    if step is None:
        return "failed", "there was no time in which all of them ran"
    arrived, by_arrival = _lockstep(inside, step)
    seen = [look.activity for look in looks if look.began >= start and look.ended <= end]
    known = [one for one in seen if one.running is not None]
    if not known:
        why = "; the server's counters were not read in that time" if looks else ""
        return arrived, by_arrival + why
    off = [one for one in known if one.running != batch or (one.waiting or 0) > 0]
    if not off:
        return "passed", f"{batch} running and 0 waiting at each of {len(known)} looks at the counters"
    said = f"{off[0].running:.0f} running, {off[0].waiting or 0:.0f} waiting at {len(off)} of {len(known)} looks"
    if arrived == "passed":
        return "not_checked", f"the counters say {said}, but {by_arrival}"
    return "failed", f"{said} at the counters"


def _lockstep(inside: Sequence[Times], step: float) -> tuple[CheckStatus, str]:
    """Whether arrivals show that every stream got a token in every step."""
    counts = [float(one.tokens[-1] - one.tokens[0]) for one in inside]
    reads = min(len(one.at) - 1 for one in inside) / max(1.0, max(counts))
    if reads < COALESCED:
        return "not_checked", f"{1 / max(reads, 1e-9):.1f} tokens came per read, which hides the steps"
    if max(counts) - min(counts) > 2 + UNEVEN * max(counts):
        return "failed", f"the streams got {min(counts):.0f} to {max(counts):.0f} tokens in the same time"
    spread = _spread(inside, step)
    if spread > SAME_STEP:
        return "not_checked", f"their tokens came spread over {spread:.0%} of a step, as from several replicas"
    if len(inside) == 1:
        return "passed", "the one stream got its tokens without a pause of its own"
    return "passed", f"every stream got a token in every step, within {spread:.0%} of it"


def _spread(inside: Sequence[Times], step: float) -> float:
    """Shortest part of a step's circle that holds the typical offset of every stream from the first."""
    reference = inside[0].at
    offsets = []
    for one in inside:
        near = np.clip(np.searchsorted(reference, one.at), 1, len(reference) - 1)
        before, after = one.at - reference[near - 1], one.at - reference[near]
        nearest = np.where(np.abs(before) < np.abs(after), before, after)
        offsets.append(float(np.median(nearest)) / step % 1.0)
    around = np.sort(offsets)
    gaps = np.diff(np.append(around, around[0] + 1.0))
    return float(1.0 - gaps.max()) if len(around) > 1 else 0.0
