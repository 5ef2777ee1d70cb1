"""Files without a timeline: kernels summed by name (nsys stats), or measured one by one (Nsight Compute)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePath

import numpy as np

from phasewise.observe.traces.events import Floats, Ints, Trace
from phasewise.observe.traces.families import Rule, family_of
from phasewise.observe.traces.kinds import Kinds, families, top
from phasewise.record.trace import TRACE_PHASES, FamilyRow, KernelRow, TracedPhase, TracePhase

_SAID = re.compile(r"(?<![a-z])(prefill|decode)(?![a-z])", re.IGNORECASE)
_FOLDERS = 6
"""So far up a path a folder may say the phase."""


def phase_of_path(path: str) -> TracePhase:
    """The phase that a file's name says, or the nearest of its folders' (``decode/summary.csv``); else ``unknown``."""
    for part in reversed(PurePath(path).parts[-_FOLDERS:]):
        if (phase := phase_of_words(part)) != "unknown":
            return phase
    return "unknown"


def phase_of_words(text: str) -> TracePhase:
    """The phase that ``text`` names; ``unknown`` when it names none, or both."""
    said = {word.lower() for word in _SAID.findall(text)}
    return next((phase for phase in TRACE_PHASES if said == {phase}), "unknown")


def measured_phases(trace: Trace, assume: Mapping[int, TracePhase]) -> tuple[TracePhase, ...]:
    """The phase of each kernel with counters: by ``assume`` (by rank), the NVTX range around it, or its file's name."""
    of_file = _of_files(trace, assume)
    names = {
        group: phase_of_words(trace.names[group]) for group in np.unique(trace.measured.group).tolist() if group >= 0
    }
    rows = zip(trace.measured.rank.tolist(), trace.measured.group.tolist(), strict=True)

    def phase(rank: int, group: int) -> TracePhase:
        inside = names.get(group, "unknown")
        return of_file[rank] if rank in assume or inside == "unknown" else inside

    return tuple(phase(rank, group) for rank, group in rows)


def _of_files(trace: Trace, assume: Mapping[int, TracePhase]) -> list[TracePhase]:
    return [assume.get(rank) or phase_of_path(source.path) for rank, source in enumerate(trace.sources)]


def untimed_phases(
    trace: Trace, rules: Sequence[Rule], measured: Sequence[TracePhase], assume: Mapping[int, TracePhase]
) -> dict[TracePhase, TracedPhase]:
    """All four phases of files that say how many kernels ran and how long, but not when.

    ``measured`` is the phase of each kernel with counters. Those are single kernels that somebody chose, so they stand
    for a phase only where no file sums it up.
    """
    totals = trace.totals
    if len(totals.name):
        of_file = _of_files(trace, assume)
        phase = np.array([TRACE_PHASES.index(of_file[rank]) for rank in totals.rank.tolist()], np.int64)
        return _phases(trace, rules, totals.name, phase, totals.instances, totals.total, totals.median)
    rows = trace.measured
    phase = np.array([TRACE_PHASES.index(one) for one in measured], np.int64)
    length = np.nan_to_num(rows.duration)
    return _phases(trace, rules, rows.name, phase, np.ones(len(rows.name), np.int64), length, length)


def _phases(
    trace: Trace,
    rules: Sequence[Rule],
    name: np.ndarray[tuple[int], np.dtype[np.int32]],
    phase: Ints,
    instances: Ints,
    spent: Ints | Floats,
    median: Floats,
) -> dict[TracePhase, TracedPhase]:
    used, of = np.unique(name, return_inverse=True)
    names = tuple(trace.names[place] for place in used.tolist())
    family, found = family_of(names, rules), {}
    for code, which in enumerate(TRACE_PHASES):
        rows = np.flatnonzero(phase == code)
        kind = Kinds(names, family, of[rows])
        times = np.bincount(kind.of, spent[rows], len(names))
        counts = np.bincount(kind.of, instances[rows], len(names)).astype(np.int64)
        medians = _medians(kind.of, median[rows], instances[rows])
        found[which] = _untimed(
            kernels=int(counts.sum()),
            gpu_time_s=float(times.sum()) / 1e9,
            families=families(kind, times, counts),
            top=top(kind, times, counts, lambda place, known=medians: known[place] / 1e9),
        )
    return found


def _medians(of: Ints, median: Floats, instances: Ints) -> dict[int, float]:
    """The median of each kind: that of the row in the middle of its instances, where it has several rows."""
    found: dict[int, float] = {}
    for kind in np.unique(of).tolist():
        rows = np.flatnonzero(of == kind)
        rows = rows[np.argsort(median[rows], kind="stable")]
        total = np.cumsum(instances[rows])
        found[kind] = float(median[rows][np.searchsorted(total, total[-1] / 2)])
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
