"""Files without a timeline: kernels summed by name (nsys stats), or measured one by one (Nsight Compute)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePath

import numpy as np

from phasewise.observe.traces.events import Trace
from phasewise.observe.traces.families import Rule, family_of
from phasewise.observe.traces.kinds import Kinds, families, top
from phasewise.record.trace import TRACE_PHASES, FamilyRow, KernelRow, TracedPhase, TracePhase

_SAID = re.compile(r"(?<![a-z])(prefill|decode)(?![a-z])", re.IGNORECASE)


def phase_of_path(path: str) -> TracePhase:
    """The phase that a file's name says, or the nearest of its folders' (``decode/summary.csv``); else ``unknown``."""
    for part in reversed(PurePath(path).parts[-6:]):
        if (phase := phase_of_words(part)) != "unknown":
            return phase
    return "unknown"


def phase_of_words(text: str) -> TracePhase:
    """The phase that ``text`` names; ``unknown`` when it names none, or both."""
    said = {word.lower() for word in _SAID.findall(text)}
    return next((phase for phase in TRACE_PHASES if said == {phase}), "unknown")


def summed_phases(trace: Trace, rules: Sequence[Rule], assume: TracePhase | None) -> dict[TracePhase, TracedPhase]:
    """All four phases from kernels summed by name: how many and how long, and nothing that needs to know when."""
    totals = trace.totals
    names = np.unique(totals.name)
    texts = tuple(trace.names[place] for place in names.tolist())
    kind = Kinds(texts, family_of(texts, rules), np.searchsorted(names, totals.name))
    said = [TRACE_PHASES.index(assume or phase_of_path(source.path)) for source in trace.sources]
    phase = np.array(said, np.int64)[totals.rank]
    found: dict[TracePhase, TracedPhase] = {}
    for code, name in enumerate(TRACE_PHASES):
        rows = np.flatnonzero(phase == code)
        of = kind.of[rows]
        times = np.bincount(of, totals.total[rows], len(texts))
        counts = np.bincount(of, totals.instances[rows], len(texts)).astype(np.int64)
        medians = dict(zip(of.tolist(), totals.median[rows].tolist(), strict=True))
        found[name] = _untimed(
            kernels=int(counts.sum()),
            gpu_time_s=float(times.sum()) / 1e9,
            families=families(kind, times, counts),
            top=top(kind, times, counts, lambda place, known=medians: known[place] / 1e9),
        )
    return found


def _untimed(
    *,
    kernels: int,
    gpu_time_s: float,
    families: tuple[FamilyRow, ...],
    top: tuple[KernelRow, ...],
) -> TracedPhase:
    """A phase of which nobody knows when its kernels ran."""
    return TracedPhase(
        steps=0,
        kernels=kernels,
        gpu_time_s=gpu_time_s,
        union_s=None,
        span_s=None,
        busy_fraction=None,
        median_kernel_s=None,
        kernels_per_step=None,
        requests=None,
        tokens=None,
        families=families,
        roles=(),
        top=top,
        gaps=None,
        launches=None,
    )
