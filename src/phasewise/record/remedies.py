"""Section of fix/: what to change, what it buys, and what would not help."""

from __future__ import annotations

from typing import Literal

import msgspec

from phasewise.record.quantity import Quantity
from phasewise.record.trace import TracePhase


class Remedy(msgspec.Struct, frozen=True, kw_only=True):
    """One change.

    Attributes:
        name: e.g. ``"4-bit weights"``.
        phase: the phase it acts on.
        saves: seconds of the stated request (of a trace: of the phase's steps on one rank), with an interval.
        saves_share: fraction of the stated request's total (of a trace: of all steps of one rank).
        step_before: seconds of the phase's step as measured.
        step_after: seconds of that step after the change, predicted.
        buys: ``latency`` shortens the request itself; ``throughput`` frees accelerator time per request and leaves the
            user's own wait as it is.
        why: one sentence, from the bound.
        verify: the command or measurement that would show it.
    """

    name: str
    phase: TracePhase
    saves: Quantity
    saves_share: float
    step_before: float
    step_after: float
    why: str
    verify: str
    buys: Literal["latency", "throughput"] = "latency"


class Rejected(msgspec.Struct, frozen=True, kw_only=True):
    """A change that would not help here, with the reason."""

    name: str
    phase: TracePhase
    reason: str


class Remedies(msgspec.Struct, frozen=True, kw_only=True):
    """Fixes and those that would not help; ``note`` says what was not ranked and why.

    Fixes are sorted by seconds saved: first those that shorten the request, then those that free the accelerator.
    """

    fixes: tuple[Remedy, ...]
    rejected: tuple[Rejected, ...]
    note: str = ""
