"""One phase of a trace as the remedies see it that need no more than the trace."""

from __future__ import annotations

import msgspec

from phasewise.fix.patient import Timed
from phasewise.record.trace import TracedPhase, TraceVerdict


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """A judged phase of a trace.

    Attributes:
        timed: its time.
        found: what the trace shows of it.
        verdict: on it, with its mean step.
        on_cpu: True when operators on CPU threads stand for the kernels.
    """

    timed: Timed
    found: TracedPhase
    verdict: TraceVerdict
    on_cpu: bool

    def part(self, *names: str) -> float:
        """Seconds of the mean step in these parts."""
        return sum(part.seconds.value for part in self.verdict.parts if part.name in names)

    @property
    def kernels(self) -> float:
        """Seconds of the mean step in kernels."""
        return self.part("floor", "kernels", "communication")
