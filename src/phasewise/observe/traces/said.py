"""Phases by the user's word: which rank's steps are of which phase, where the steps themselves do not say."""

from __future__ import annotations

from collections.abc import Mapping

from phasewise.observe.traces.split import Split, Step
from phasewise.record.trace import Health, TracePhase

_SURE = 0.9
"""Confidence from which a step's own evidence (an annotation) stands against the user's word."""


def by_word(split: Split, word: Mapping[int, TracePhase]) -> tuple[Split, Health | None]:
    """``split`` with the steps of each rank in ``word`` as that phase, and what there is to say about it.

    A step whose own evidence is sure keeps its phase: a trace named as prefill may hold decode steps too.
    """
    steps = tuple(_said(step, word.get(step.rank)) for step in split.steps)
    if not word:
        return split, None
    kept = [step for step in steps if step.rank in word and step.phase != word[step.rank]]
    return split._replace(steps=steps), _health(kept, word)


def _said(step: Step, phase: TracePhase | None) -> Step:
    if phase is None or step.phase == phase or (step.phase != "unknown" and step.confidence >= _SURE):
        return step
    before = (f"not {step.phase}, though {step.evidence[0]}",) if step.phase != "unknown" and step.evidence else ()
    return step._replace(phase=phase, confidence=1.0, evidence=(f"named by --{phase}", *before))


def _health(kept: list[Step], word: Mapping[int, TracePhase]) -> Health:
    if not kept:
        return Health(
            check="phases as named", status="passed", detail="Every step is of the phase that its file is named as."
        )
    counts = {phase: sum(step.phase == phase for step in kept) for phase in dict.fromkeys(step.phase for step in kept)}
    what = ", ".join(f"{count:,} {phase}" for phase, count in counts.items())
    first = kept[0]
    why = f" (the first: {first.evidence[0]})" if first.evidence else ""
    return Health(
        check="phases as named",
        status="failed",
        detail=f"By their own evidence{why} some steps are of another phase than their file is named as, and are "
        f"counted so: {what}.",
    )
