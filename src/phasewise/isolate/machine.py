"""CPU time of the machine, in all and ours, so that the rest can be told."""

from __future__ import annotations

import os
import time
from typing import NamedTuple


class Load(NamedTuple):
    """CPU time used by the moment ``at`` (monotonic), seconds.

    Attributes:
        at: when it was read.
        busy: by everything on the ``cores`` that this process may use, time that a hypervisor took included.
        own: by this process and all that it started, our engine among them.
        cores: how many cores these are.
    """

    at: float
    busy: float
    own: float
    cores: int


def load() -> Load:
    """CPU time used so far, by the operating system's counters (1/100 s each)."""
    import psutil

    cores = psutil.cpu_times(percpu=True)
    if hasattr(os, "sched_getaffinity"):
        usable = os.sched_getaffinity(0)
        cores = [core for number, core in enumerate(cores) if number in usable] or cores
    # Linux counts the time of guests in user time, too.
    idle = ("idle", "iowait", "guest", "guest_nice")
    busy = sum(seconds for core in cores for name, seconds in core._asdict().items() if name not in idle)
    this = psutil.Process()
    own = 0.0
    for process in (this, *this.children(recursive=True)):
        try:
            # Of children that have ended, the parent keeps the time (user, system, children's user and system).
            own += sum(process.cpu_times()[:4])
        except psutil.Error:
            continue  # it ended just now
    return Load(time.monotonic(), busy, own, len(cores))
