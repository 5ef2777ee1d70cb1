"""The proof that a phase was measured clean: one function per check, and the list of them.

A check looks at the evidence of a run and says what it saw, in numbers. It passes only on evidence; without any it is
``not_checked``. docs/isolation.md describes each and which failures void the figures.
"""

from __future__ import annotations

from collections.abc import Callable

from phasewise.isolate.checks.answers import ended_by_length, streamed, tokens_by_usage
from phasewise.isolate.checks.evidence import Evidence
from phasewise.isolate.checks.kinds import chunks_per_token, padding, reasoning
from phasewise.isolate.checks.pauses import evenly
from phasewise.isolate.checks.prompts import uncached, warm
from phasewise.isolate.checks.servers import held_back, timings_agree
from phasewise.isolate.checks.steady import clock, quiet
from phasewise.isolate.checks.surroundings import alone, client, errors
from phasewise.isolate.checks.waits import waits
from phasewise.record.observation import Check

CHECKS: tuple[Callable[[Evidence], list[Check]], ...] = (
    warm,
    uncached,
    waits,
    alone,
    quiet,
    streamed,
    tokens_by_usage,
    ended_by_length,
    chunks_per_token,
    held_back,
    timings_agree,
    reasoning,
    padding,
    evenly,
    errors,
    client,
    clock,
)
"""In the order in which they are shown. Each returns one check per phase it can speak of, ``waits`` one per part of
TTFT."""


def made(evidence: Evidence) -> tuple[Check, ...]:
    """All checks on ``evidence``; none when nothing was measured."""
    if not evidence.samples:
        return ()
    return tuple(found for check in CHECKS for found in check(evidence))


__all__ = ["CHECKS", "Evidence", "made"]
