"""One server, random arrivals, a constant service time: how long a request waits before it is served.

The mean is that of the Pollaczek-Khinchine formula for M/G/1 with no variance of the service time, which makes M/D/1:
W = ρ / (2 (1 - ρ)) · s with ρ = rate · s (Pollaczek 1930, Khinchine 1932; L. Kleinrock, Queueing Systems, volume 1,
1975, chapter 5). Prefill served one prompt at a time, in the order of arrival, is such a queue.
"""

from __future__ import annotations

import math
from collections.abc import Sequence


def mean_wait(rate: float, service_s: float) -> float:
    """Mean wait of M/D/1 in seconds: ``rate`` arrivals per second, each served for ``service_s``; inf at ρ >= 1."""
    load = rate * service_s
    return load / (2 * (1 - load)) * service_s if load < 1 else math.inf


def waits(arrivals: Sequence[float], service_s: float) -> list[float]:
    """Wait of each of ``arrivals`` (seconds, ascending) in that queue, seconds: D. V. Lindley's recursion (1952)."""
    found: list[float] = []
    free = -math.inf
    for at in arrivals:
        begun = max(at, free)
        found.append(begun - at)
        free = begun + service_s
    return found
