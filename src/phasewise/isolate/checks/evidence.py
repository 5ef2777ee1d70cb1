"""What the checks look at."""

from __future__ import annotations

from typing import NamedTuple

from phasewise.isolate import decode, prefill
from phasewise.isolate.sample import Sample, Shape
from phasewise.isolate.session import Session, Snapshot
from phasewise.record.observation import Phase


class Evidence(NamedTuple):
    """All requests of a run in order, those of each phase that count, and the server's counters while we were idle."""

    samples: tuple[Sample, ...]
    prefill: dict[Shape, list[Sample]]
    decode: dict[Shape, list[Sample]]
    snapshots: tuple[Snapshot, ...]

    @classmethod
    def of(cls, session: Session) -> Evidence:
        """The evidence that ``session`` has gathered so far."""
        samples = tuple(session.samples)
        return cls(samples, prefill.kept(samples), decode.kept(samples), tuple(session.snapshots))

    def sent(self, phase: Phase) -> list[Sample]:
        """Requests of ``phase`` that were no mere warm-up, whether they count or not."""
        return [sample for sample in self.samples if sample.phase == phase and not sample.warmup]

    def repeated(self) -> list[list[Sample]]:
        """The samples that count, by shape, where there are at least two."""
        return [group for group in (*self.prefill.values(), *self.decode.values()) if len(group) > 1]
