"""The client watches itself: how late it was, how much of a core it took, how far behind its schedule it fell.

`verdict` is the one rule for whether a client was the bottleneck; profile, sweep and load all go by it.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from phasewise.record.observation import Check
from phasewise.units import show

MOST_CPU = 0.8
"""Part of a core above which the client may be what limits: one thread does everything, and bursts need the rest."""

MOST_LAG_S = 20e-3
"""A read so late (p99) may hold two tokens of a stream of 50 tokens a second, which then share one time."""

MOST_UNSTAMPED_LAG_S = 1e-3
"""Without the kernel's stamps the lag is the error of each time: so much of it typically (p50)."""

MOST_SLIP_S = 10e-3
"""Requests sent so long after they were due are another load than the one asked for; TTFT itself counts from the real
sending ..."""

MOST_SLIP = 0.1
"""... but what is under this part of the time that it should be small against is none."""

LATE = 100
"""One in so many may be late: past that the p99 is. Of fewer one may be, unless it is the only one."""

MOST_NAMED = 4
"""Faults that are named; with many clients one of them says it all."""

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
            waking up to having read everything that was there. Both hold those of the loop's own deadlines, at which
            it should have been awake.
        lag_p50_s, lag_p99_s: upper edge of a step of a quarter of an octave, of fewer than 100 but the latest; None
            without reads.
        refused: connections for which the system had no socket or no port.
        full: requests waited because all the connections that it may open were in use.
        clock_moved_s: the most by which the system's clock was set.
    """

    wall_s: float
    cpu_share: float
    reads: int
    stamped: bool
    lag_p50_s: float | None
    lag_p99_s: float | None
    refused: int = 0
    full: bool = False
    clock_moved_s: float = 0.0


class SelfWatch:
    """Counts as the loop runs; cheap enough for every read."""

    def __init__(self) -> None:
        self._wall = self._cpu = 0.0
        self._lags = [0] * _BUCKETS
        self._reads = self._refused = self._moved = 0
        self._stamped = self._full = False

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

    @property
    def stamped(self) -> bool:
        """Whether the last reads bore the kernel's stamp."""
        return self._stamped

    def woke(self, since: int, now: int, *, stamped: bool) -> None:
        """Something had arrived at ``since`` (ns), or it should have been awake by then, and was ``now``."""
        late = now - since
        self._stamped = stamped
        step = int(math.log2(late) * _PER_OCTAVE) + 1 if late > 1 else 0
        self._lags[min(step, _BUCKETS - 1)] += 1

    def refused(self) -> None:
        """Count a connection for which the system had nothing left."""
        self._refused += 1

    def full(self) -> None:
        """Requests wait for a connection: as many as may be open are in use."""
        self._full = True

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
            full=self._full,
            clock_moved_s=self._moved * 1e-9,
        )

    def _quantile(self, part: float) -> float | None:
        total = sum(self._lags)
        seen = 0
        for step, count in enumerate(self._lags):
            seen += count
            if total and seen >= max(1.0, min(part * total, total - 1)):
                return float(2 ** (step / _PER_OCTAVE)) * 1e-9
        return None


class Watched(NamedTuple):
    """One client: what it saw of itself, and of each request how long after it was due it was sent, seconds (n,).

    ``name`` tells it from others.
    """

    lateness: Lateness
    slips: Sequence[float] | NDArray[np.float64] = ()
    name: str = "it"


def verdict(clients: Sequence[Watched], *, pace_s: float = 0.0, part: float = MOST_SLIP) -> Check:
    """Whether the clients kept up: past a bound one was the bottleneck, and nothing may be said of the server.

    Args:
        clients: all that measured together; one that did not keep up is enough.
        pace_s: the time that a late request should be small against, such as the median TTFT.
        part: of it by which a request may be late.
    """
    if not any(one.lateness.reads or one.lateness.refused for one in clients):
        return Check(name="client", phase="run", status="not_checked", detail="the client read nothing")
    faults = [fault for one in clients for fault in _faults(one, max(MOST_SLIP_S, part * pace_s))]
    if faults:
        others = f" and {len(faults) - MOST_NAMED} more" if len(faults) > MOST_NAMED else ""
        text = f"the client was the bottleneck: {', '.join(faults[:MOST_NAMED])}{others}; {_cure(clients)}"
        return Check(name="client", phase="run", status="failed", detail=text, voids=True)
    moved = max(one.lateness.clock_moved_s for one in clients)
    if moved > MOST_CLOCK_S:
        text = f"the system's clock was set by {show(moved, 's')} while it gave the times: run it again"
        return Check(name="client", phase="run", status="failed", detail=text, voids=True)
    return Check(name="client", phase="run", status="passed", detail=f"the client kept up: {', '.join(_seen(clients))}")


def lateness_of(slips: Sequence[float] | NDArray[np.float64]) -> float | None:
    """The p99 of ``slips``, of fewer than 100 all but the latest; None for none."""
    if not len(slips):
        return None
    return float(np.sort(slips)[len(slips) - 1 - _may_be_late(len(slips))])


def _may_be_late(count: int) -> int:
    return max(min(1, count - 1), count // LATE)


def _lag(seen: Lateness) -> tuple[float | None, str, float]:
    """The lag that counts, which quantile it is, and its bound."""
    if seen.stamped:
        return seen.lag_p99_s, "p99", MOST_LAG_S
    return seen.lag_p50_s, "p50", MOST_UNSTAMPED_LAG_S


def _faults(one: Watched, most_slip: float) -> Iterator[str]:
    seen, name = one.lateness, one.name
    if seen.cpu_share > MOST_CPU:
        yield f"{name} used {seen.cpu_share:.0%} of a core"
    lag, which, most = _lag(seen)
    if lag is not None and lag > most:
        yield f"{name} {'read bytes' if seen.stamped else 'was'} {show(lag, 's')} late ({which})"
    slip = lateness_of(one.slips)
    if slip is not None and slip > most_slip:
        late = int((np.asarray(one.slips) > most_slip).sum())
        yield f"{name} sent {late:,} of its {len(one.slips):,} requests over {show(most_slip, 's')} late"
    if seen.refused:
        yield f"the system had no socket for {seen.refused:,} of {'its' if name == 'it' else f'{name}’s'} connections"


def _cure(clients: Sequence[Watched]) -> str:
    if any(one.lateness.refused for one in clients):
        return "raise the limit with `ulimit -n`, or send less from it"
    if any(one.lateness.full for one in clients):
        return "requests waited for a connection: allow more with --connections, or send less from it"
    return "give it a quieter machine, or send less from it"


def _seen(clients: Sequence[Watched]) -> Iterator[str]:
    """What the worst of them saw."""
    yield f"it used {max(one.lateness.cpu_share for one in clients):.0%} of a core"
    lags = [(lag, which) for one in clients for lag, which, _ in [_lag(one.lateness)] if lag is not None]
    if lags:
        lag, which = max(lags)
        yield (
            f"it read bytes within {show(lag, 's')} (p99)" if which == "p99" else f"it was {show(lag, 's')} late (p50)"
        )
    slips = [slip for one in clients if (slip := lateness_of(one.slips)) is not None]
    if slips:
        yield f"it sent requests within {show(max(0.0, *slips), 's')} of when they were due (p99)"
