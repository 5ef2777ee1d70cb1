"""Streams written down by hand: what a client saw of requests whose steps are known."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from phasewise.engines.base import Activity
from phasewise.engines.dialect import SHOWN
from phasewise.engines.exchange import Arrivals, Exchange
from phasewise.isolate.crowd import Look, Stream


def stream(
    at: Sequence[float],
    *,
    key: int = 1,
    prompt: int = 32,
    sent: float | None = None,
    per_chunk: int = 1,
    reads: Sequence[int] | None = None,
    usage: int | None = None,
    told: bool = True,
) -> Stream:
    """Tokens at the times ``at``; ``reads`` numbers the read of each, ``per_chunk`` tokens in each event."""
    count = len(at)
    arrivals = Arrivals(
        at=np.round(np.array(at) * 1e9).astype(np.int64),
        read=np.array(reads if reads is not None else range(count), np.int32),
        tokens=np.full(count, per_chunk if told else -1, np.int32),
        kind=np.full(count, SHOWN, np.uint8),
    )
    exchange = Exchange(
        key=key,
        due=0.0,
        sent_at=at[0] - 0.01 if sent is None else sent,
        first_at=at[0],
        last_at=at[-1],
        ended_at=at[-1],
        status=200,
        prompt_tokens=prompt,
        completion_tokens=count * per_chunk if usage is None else usage,
        cached_tokens=0,
        finish_reason="length",
        stamped=True,
        arrivals=arrivals,
    )
    return Stream(exchange, prompt, count * per_chunk if usage is None else usage)


def look(at: float, running: float, waiting: float = 0.0) -> Look:
    return Look(at, at + 1e-3, Activity(running=running, waiting=waiting))
