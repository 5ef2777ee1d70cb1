"""What attribution hands on: the steps of a trace, and the step that every event belongs to."""

from __future__ import annotations

from typing import NamedTuple

from phasewise.observe.traces.events import Ints, Small
from phasewise.record.trace import Tokens, TracePhase


class Step(NamedTuple):
    """One pass of the model on one rank, and what it was.

    ``band`` is its row in `Trace.bands`, -1 when its rhythm found it; ``start`` and ``end`` are the CPU band's (or
    the first and last launch's), ns. ``told`` is the phase that its own kernels tell with at least 0.9 confidence
    where a range of the user's own marks it: ``unknown`` when they are not that sure, None when they were not asked.
    See `record.trace.TraceStep` for the rest.
    """

    rank: int
    label: str
    band: int
    start: int
    end: int
    phase: TracePhase
    evidence: tuple[str, ...]
    confidence: float
    prefill: Tokens | None = None
    decode: Tokens | None = None
    speculative: bool = False
    told: TracePhase | None = None


class Split(NamedTuple):
    """Every event's place.

    Attributes:
        steps: by rank, then by start.
        kernel: step of each kernel, -1 outside all of them.
        copy: step of each copy.
        replay: step of each graph replay.
        launch: step of each launch.
        launched_by: row in `Trace.launches` that started each kernel, -1 when the trace holds none.
        replayed_by: the same for each graph replay.
        stray: True for kernels so far from the rest of their step that they would stretch its span.
        how: one sentence on how the steps were found, for the report.
    """

    steps: tuple[Step, ...]
    kernel: Small
    copy: Small
    replay: Small
    launch: Small
    launched_by: Ints
    replayed_by: Ints
    stray: Small
    how: str
