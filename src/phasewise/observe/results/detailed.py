"""A run of which each request's times are known: who ran alone, and how many decoded together."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, median
from typing import NamedTuple


class Request(NamedTuple):
    """Seconds on one clock, and tokens by the tool's count. ``tpot`` is None for an answer of one token."""

    start: float
    first: float
    end: float
    prompt: float
    answer: float
    tpot: float | None

    @property
    def ttft(self) -> float:
        """Send to first token."""
        return self.first - self.start


class Means(NamedTuple):
    """Of some requests: medians of TTFT and TPOT, means of the rest, and the time from the first to the last."""

    requests: int
    prompt: float
    answer: float
    ttft: float
    tpot: float | None
    total: float
    duration: float
    decoding: float | None


def means(found: Sequence[Request]) -> Means:
    """The means of at least one request."""
    tpots = [one.tpot for one in found if one.tpot is not None]
    return Means(
        requests=len(found),
        prompt=fmean(one.prompt for one in found),
        answer=fmean(one.answer for one in found),
        ttft=median(one.ttft for one in found),
        tpot=median(tpots) if tpots else None,
        total=fmean(one.end - one.start for one in found),
        duration=max(one.end for one in found) - min(one.start for one in found),
        decoding=decoding(found),
    )


def alone(found: Sequence[Request]) -> list[Request]:
    """Those that no other request overlapped."""
    order = sorted(found, key=lambda one: one.start)
    kept, latest = [], float("-inf")
    for i, one in enumerate(order):
        following = order[i + 1].start if i + 1 < len(order) else float("inf")
        if latest <= one.start and one.end <= following:
            kept.append(one)
        latest = max(latest, one.end)
    return kept


def decoding(found: Sequence[Request]) -> float | None:
    """How many requests decode, itself among them, while a request does: the mean over all of their time."""
    events = sorted(event for one in found if one.end > one.first for event in ((one.first, 1), (one.end, -1)))
    running, since, held, weighted = 0, 0.0, 0.0, 0.0
    for time, change in events:
        held += running * (time - since)
        weighted += running * running * (time - since)
        running, since = running + change, time
    return weighted / held if held > 0 else None
