"""What the checks look at."""

from __future__ import annotations

from typing import NamedTuple

from phasewise.isolate import decode, prefill
from phasewise.isolate.machine import Load
from phasewise.isolate.sample import Sample, Shape
from phasewise.isolate.session import Session, Snapshot
from phasewise.record.observation import Phase
from phasewise.record.probes import Probes


class Evidence(NamedTuple):
    """What a run left behind.

    Attributes:
        samples: all requests that were answered, in order.
        prefill, decode: those of each phase that count, by shape.
        snapshots: the server's counters while we were idle.
        failures: what was said of the requests that failed.
        loads: CPU time of the machine at the start and the end; none when the engine is not ours.
        settings: of an engine that we started.
        probes: what requests beside the profiles told; None when none were made.
    """

    samples: tuple[Sample, ...]
    prefill: dict[Shape, list[Sample]]
    decode: dict[Shape, list[Sample]]
    snapshots: tuple[Snapshot, ...]
    failures: tuple[str, ...]
    loads: tuple[Load, ...]
    settings: dict[str, str]
    probes: Probes | None = None

    @classmethod
    def of(cls, session: Session, probes: Probes | None = None) -> Evidence:
        """The evidence that ``session`` has gathered so far, and that of the ``probes``."""
        samples = tuple(session.samples)
        return cls(
            samples=samples,
            prefill=prefill.kept(samples),
            decode=decode.kept(samples),
            snapshots=tuple(session.snapshots),
            failures=tuple(session.failures),
            loads=tuple(session.loads),
            settings=session.engine.target.settings,
            probes=probes,
        )

    def sent(self, phase: Phase) -> list[Sample]:
        """Requests of ``phase`` that were no mere warm-up, whether they count or not."""
        return [sample for sample in self.samples if sample.phase == phase and not sample.warmup]

    def repeated(self) -> list[list[Sample]]:
        """The samples that count, by shape, where there are at least two."""
        return [group for group in (*self.prefill.values(), *self.decode.values()) if len(group) > 1]


def many(count: float, thing: str) -> str:
    """``count`` things in words: ``1 read``, ``1,024 reads``."""
    return f"{count:,.0f} {thing}{'' if round(count) == 1 else 's'}"
