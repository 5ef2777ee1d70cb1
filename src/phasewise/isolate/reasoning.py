"""First thought and first word of the answer, apart."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from phasewise.isolate import decode
from phasewise.isolate.sample import Sample
from phasewise.record.quantity import measured
from phasewise.record.reasoning import Reasoning


def observe(samples: Sequence[Sample]) -> Reasoning | None:
    """What the counted decode answers show; None when none of them began with reasoning."""
    answers = [sample.answer for group in decode.kept(samples).values() for sample in group]
    thoughts = [answer for answer in answers if any(chunk.thinking for chunk in answer.chunks)]
    if not thoughts:
        return None
    waits = [answer.answered_at - answer.sent_at for answer in thoughts if answer.answered_at is not None]
    first = statistics.median(answer.ttft for answer in thoughts)
    return Reasoning(
        first_thinking=measured(first, "s", f"median of {len(thoughts)} answers that began with reasoning"),
        first_answer=measured(statistics.median(waits), "s", f"median of {len(waits)} answers") if waits else None,
        thoughts=len(thoughts),
        answered=len(waits),
    )
