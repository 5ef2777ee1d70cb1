"""The part of a profile's document about the server's own times, and about thinking."""

from __future__ import annotations

from phasewise.record.quantity import measured, reported
from phasewise.record.reasoning import Reasoning
from phasewise.record.run import Run
from phasewise.record.timings import Beside
from phasewise.report.json.leaves import Missing


def timings(run: Run) -> dict[str, object] | Missing:
    """Ours and the server's, by phase and size."""
    found = run.observation.timings if run.observation else None
    if found is None:
        return Missing("the server told no times of its own")
    return {
        "who": found.who,
        "rows": [_row(row) for row in found.rows],
        "queue_s": found.queue or Missing("the server does not say"),
        "load_s": found.load or Missing("the server does not say"),
    }


def _row(row: Beside) -> dict[str, object]:
    return {
        "phase": row.phase,
        "tokens": reported(row.tokens, "token", "prompt, by the server's count"),
        "ours_s": row.ours,
        "theirs_s": row.theirs,
        "rest_s": row.rest,
        "samples": measured(row.samples, "request", "requests at this size"),
    }


def reasoning(run: Run) -> dict[str, object] | Missing:
    """First thought and first word of the answer."""
    found: Reasoning | None = run.observation.reasoning if run.observation else None
    if found is None:
        return Missing("no answer held reasoning apart from its text")
    return {
        "first_thinking_s": found.first_thinking,
        "first_answer_s": found.first_answer or Missing("no answer came within the tokens asked for"),
        "thoughts": measured(found.thoughts, "request", "answers that began with reasoning"),
        "answered": measured(found.answered, "request", "those of them that came to their answer"),
    }
