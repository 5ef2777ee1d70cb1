"""The client watches itself: how late it was, how much of a core it took, how far behind its schedule it fell."""

from __future__ import annotations

import time

import msgspec

from phasewise.engines import stamps

_BUCKETS = 40
"""Powers of two of ns: the last is 18 minutes."""


class Lateness(msgspec.Struct, frozen=True, kw_only=True):
    """What the client did while it measured.

    Attributes:
        wall_s: seconds it ran.
        cpu_share: CPU seconds of this process over those.
        reads: socket reads.
        lag_p50_s, lag_p99_s: from the kernel's stamp of bytes to our reading them, upper edge of a factor-of-two
            bucket; None without stamps.
    """

    wall_s: float
    cpu_share: float
    reads: int
    lag_p50_s: float | None
    lag_p99_s: float | None


class SelfWatch:
    """Counts as the loop runs; cheap enough for every read."""

    def __init__(self) -> None:
        self._began, self._cpu = time.perf_counter(), time.process_time()
        self._lags = [0] * _BUCKETS
        self._reads = 0

    def took(self, reads: int) -> None:
        """Count reads."""
        self._reads += reads

    def woke(self, mark: bytes, offset_ns: int) -> None:
        """A read was made just now whose bytes had arrived at ``mark``."""
        late = time.perf_counter_ns() - stamps.stamp(mark, offset_ns)
        self._lags[min(max(late, 0).bit_length(), _BUCKETS - 1)] += 1

    def lateness(self) -> Lateness:
        """Everything since the start."""
        wall = time.perf_counter() - self._began
        return Lateness(
            wall_s=wall,
            cpu_share=(time.process_time() - self._cpu) / wall if wall > 0 else 0.0,
            reads=self._reads,
            lag_p50_s=self._quantile(0.5),
            lag_p99_s=self._quantile(0.99),
        )

    def _quantile(self, part: float) -> float | None:
        total = sum(self._lags)
        seen = 0
        for bucket, count in enumerate(self._lags):
            seen += count
            if total and seen >= part * total:
                return float(2**bucket) * 1e-9
        return None
