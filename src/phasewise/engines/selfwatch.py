"""The client watches itself: how late it was, how much of a core it took, how far behind its schedule it fell."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from phasewise.record.observation import Check
from phasewise.units import show

MOST_CPU = 0.8
"""Part of a core above which the client may be what limits: one thread does everything, and bursts need the rest."""

MOST_LAG_S, MOST_UNSTAMPED_LAG_S = 20e-3, 1e-3
"""A read so late (p99) may hold two tokens of a stream of 50 tokens a second, which then share one time. Without the
kernel's stamps the lag is the error of each time."""

MOST_SLIP_S = 10e-3
"""Requests sent so long after they were due (p99) are another load than the one asked for; TTFT itself counts from the
real sending."""

MOST_CLOCK_S = 1e-4
"""The kernel stamps by the system's clock: setting it by more than this moves the times around that moment."""

_BUCKETS = 160
_PER_OCTAVE = 4
"""Lags are counted in steps of a quarter of an octave, from 1 ns to 18 minutes."""


class Lateness(msgspec.Struct, frozen=True, kw_only=True):
    """What the client did while it measured.

    Attributes:
        wall_s: seconds it worked.
        cpu_share: CPU seconds of its thread over those.
        reads: socket reads.
        stamped: True when the lags are from the kernel's stamp of bytes to our having read them; else they are from
            waking up to having read everything that was there.
        lag_p50_s, lag_p99_s: upper edge of a step of a quarter of an octave; None without reads.
        refused: connections for which the system had no socket or no port.
        clock_moved_s: the most by which the system's clock was set.
    """

    wall_s: float
    cpu_share: float
    reads: int
    stamped: bool
    lag_p50_s: float | None
    lag_p99_s: float | None
    refused: int = 0
    clock_moved_s: float = 0.0


class SelfWatch:
    """Counts as the loop runs; cheap enough for every read."""

    def __init__(self) -> None:
        self._wall = self._cpu = 0.0
        self._lags = [0] * _BUCKETS
        self._reads = self._refused = self._moved = 0
        self._stamped = False

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        """Count the time and the CPU time of the block."""
        wall, cpu = time.perf_counter(), time.thread_time()
        try:
            yield
        finally:
            self._wall += time.perf_counter() - wall
            self._cpu += time.thread_time() - cpu

    def took(self, reads: int) -> None:
        """Count reads."""
        self._reads += reads

    def woke(self, since: int, *, stamped: bool) -> None:
        """Something had arrived at ``since`` (ns) and was read just now."""
        late = time.perf_counter_ns() - since
        self._stamped = stamped
        step = int(math.log2(late) * _PER_OCTAVE) + 1 if late > 1 else 0
        self._lags[min(step, _BUCKETS - 1)] += 1

    def refused(self) -> None:
        """Count a connection for which the system had nothing left."""
        self._refused += 1

    def clock_moved(self, by: int) -> None:
        """The offset of the system's clock changed by so many ns since the last look."""
        self._moved = max(self._moved, abs(by))

    def lateness(self) -> Lateness:
        """Everything since the start."""
        return Lateness(
            wall_s=self._wall,
            cpu_share=self._cpu / self._wall if self._wall > 0 else 0.0,
            reads=self._reads,
            stamped=self._stamped,
            lag_p50_s=self._quantile(0.5),
            lag_p99_s=self._quantile(0.99),
            refused=self._refused,
            clock_moved_s=self._moved * 1e-9,
        )

    def _quantile(self, part: float) -> float | None:
        total = sum(self._lags)
        seen = 0
        for step, count in enumerate(self._lags):
            seen += count
            if total and seen >= part * total:
                return float(2 ** (step / _PER_OCTAVE)) * 1e-9
        return None


def verdict(lateness: Lateness, slips: Sequence[float]) -> Check:
    """Whether the client kept up: past a bound it was the bottleneck, and nothing may be said of the server.

    Args:
        lateness: of the loop.
        slips: of each request, how long after it was due it was sent, seconds (`Exchange.slip`).
    """
    if not lateness.reads and not lateness.refused:
        return Check(name="client", phase="run", status="not_checked", detail="the client read nothing")
    seen, over = [], []

    def look(text: str, much: bool) -> None:
        seen.append(text)
        over.extend([text] * much)

    look(f"it used {lateness.cpu_share:.0%} of a core", lateness.cpu_share > MOST_CPU)
    if lateness.lag_p99_s is not None:
        most = MOST_LAG_S if lateness.stamped else MOST_UNSTAMPED_LAG_S
        look(f"it read bytes up to {show(lateness.lag_p99_s, 's')} late (p99)", lateness.lag_p99_s > most)
    if len(slips):
        slip = float(np.quantile(slips, 0.99, method="higher"))
        look(f"it sent requests up to {show(slip, 's')} late (p99)", slip > MOST_SLIP_S)
    if lateness.refused:
        look(f"the system had no socket for {lateness.refused:,} of its connections", True)
    if over:
        text = f"the client was the bottleneck: {', '.join(over)}; give it a quieter machine, or send less from it"
        return Check(name="client", phase="run", status="failed", detail=text, voids=True)
    if lateness.clock_moved_s > MOST_CLOCK_S:
        text = (
            f"the system's clock was set by {show(lateness.clock_moved_s, 's')} while it gave the times: run it again"
        )
        return Check(name="client", phase="run", status="failed", detail=text, voids=True)
    return Check(name="client", phase="run", status="passed", detail=f"the client kept up: {', '.join(seen)}")
