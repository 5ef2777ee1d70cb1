"""Two recordings side by side by the user's word: one of prefill, one of decode."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from phasewise.observe.traces.events import NOT_SAID, Trace
from phasewise.observe.traces.phase import SURE
from phasewise.observe.traces.split import Split, Step
from phasewise.record.trace import Health, Traced, TracePhase


def by_word(trace: Trace, split: Split, word: Mapping[int, TracePhase]) -> Split:
    """``split`` with the steps of each rank in ``word`` as that phase.

    A step whose own evidence is sure keeps its phase: a recording named as prefill may hold decode steps too. A rank in
    which no step was found is one step as a whole.
    """
    if not word:
        return split
    split = _with_whole_ranks(trace, split, word)
    return split._replace(steps=tuple(_said(step, word.get(step.rank)) for step in split.steps))


def _said(step: Step, phase: TracePhase | None) -> Step:
    if phase is None or step.phase == phase or (step.phase != "unknown" and step.confidence >= SURE):
        return step
    before = (f"though {step.evidence[0]}",) if step.evidence else ()
    return step._replace(phase=phase, confidence=1.0, evidence=(f"named by --{phase}", *before))


def _with_whole_ranks(trace: Trace, split: Split, word: Mapping[int, TracePhase]) -> Split:
    kernels, replays = trace.kernels, trace.replays
    found = {step.rank for step in split.steps}
    steps = list(split.steps)
    tables: dict[str, Any] = {"kernel": kernels, "copy": trace.copies, "replay": replays, "launch": trace.launches}
    places = {name: getattr(split, name).copy() for name in tables}
    for rank in sorted(set(word) - found):
        starts = np.concatenate([one.start[one.rank == rank] for one in (kernels, replays)])
        ends = np.concatenate([one.end[one.rank == rank] for one in (kernels, replays)])
        if not len(starts):
            continue
        for name, table in tables.items():
            places[name][table.rank == rank] = len(steps)
        evidence = ("no step was found in it",)
        steps.append(Step(rank, "", NOT_SAID, int(starts.min()), int(ends.max()), "unknown", evidence, 0.0))
    order = sorted(range(len(steps)), key=lambda at: (steps[at].rank, steps[at].start))
    number = np.empty(len(steps) + 1, np.int32)
    number[order], number[-1] = np.arange(len(steps)), NOT_SAID
    moved = {name: number[place] for name, place in places.items()}
    return split._replace(steps=tuple(steps[at] for at in order), **moved)


def side_by_side(traced: Traced, word: Mapping[int, TracePhase]) -> Traced:
    """``traced`` as the record of what ``word`` names: what only the ranks of one job can be asked is not."""
    if not word:
        return traced
    health = traced.health
    if len(set(word.values())) > 1:
        note = "two recordings stand side by side: the files of one are no ranks of the other's job"
        unasked = Health(check="ranks", status="not_checked", detail=note)
        health = (*(one for one in health if not one.check.endswith("ranks")), unasked)
    counts = tuple(Counter(word[rank] for rank in sorted(word)).values())
    return msgspec.structs.replace(
        traced, recordings=counts if len(counts) > 1 else (), health=(*_as_named(traced, word), *health)
    )


def _as_named(traced: Traced, word: Mapping[int, TracePhase]) -> Sequence[Health]:
    """Whether every step is of the phase that its file is named as; nothing where there are no steps."""
    other = [step for step in traced.steps if step.phase != word[step.rank]]
    if not traced.steps:
        return ()
    if not other:
        good = "every step is of the phase that its file is named as"
        return (Health(check="phases as named", status="passed", detail=good),)
    counts = Counter(step.phase for step in other)
    what = ", ".join(f"{count:,} {phase}" for phase, count in counts.items())
    why = f" ({other[0].evidence[0]})" if other[0].evidence else ""
    bad = f"by their own evidence{why} steps are of another phase than their file is named as, and count so: {what}"
    return (Health(check="phases as named", status="failed", detail=bad),)
