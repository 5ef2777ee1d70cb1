"""The words of a health check."""

from __future__ import annotations

from typing import Any

from phasewise.record.trace import Health


def judged(check: str, failed: Any, bad: str, good: str) -> Health:
    """A check that could be made: ``bad`` when it failed, ``good`` when it passed."""
    return Health(check=check, status="failed" if failed else "passed", detail=bad if failed else good)


def unchecked(check: str, why: str) -> Health:
    """A check for which the trace does not hold what is needed."""
    return Health(check=check, status="not_checked", detail=why)


def counted(count: Any, noun: str) -> str:
    """``1 kernel``, ``2,000 kernels``, ``3 launches``."""
    ending = "" if count == 1 else "es" if noun.endswith("ch") else "s"
    return f"{int(count):,} {noun}{ending}"
