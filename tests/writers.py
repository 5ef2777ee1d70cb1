"""The processes that write the rows of a command: they outlive it for a moment."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence

import psutil


def writers(pid: int) -> list[psutil.Process]:
    """Those of the command ``pid``."""
    found = []
    for child in psutil.Process(pid).children():
        with contextlib.suppress(psutil.ZombieProcess, psutil.NoSuchProcess):
            found += [child] * ("phasewise.isolate.ledger.writer" in child.cmdline())
    return found


def wait_for_end(processes: Sequence[psutil.Process], seconds: float = 60.0) -> None:
    """Until all have ended; nobody may be there to collect them."""
    until = time.monotonic() + seconds
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            while process.status() != psutil.STATUS_ZOMBIE and time.monotonic() < until:
                time.sleep(0.02)
