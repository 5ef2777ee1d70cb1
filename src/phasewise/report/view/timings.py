"""What the server says of its own times, beside ours; and thinking apart from answering."""

from __future__ import annotations

from phasewise.record.run import Run
from phasewise.report.view import words
from phasewise.report.view.table import Cell, Table, columns, give, say


def table(run: Run) -> Table | None:
    """Each phase at each size, ours and the server's; None when the server told no times of its own."""
    found = run.observation.timings if run.observation else None
    if found is None:
        return None
    rows = tuple(
        (
            say(row.phase),
            Cell(words.count(row.tokens)),
            give(row.ours, 4),
            give(row.theirs, 4),
            give(row.rest),
            Cell(words.count(row.samples)),
        )
        for row in found.rows
    )
    before = [
        f"{what} {words.amount(value)} before that (reported)"
        for what, value in (("the queue took", found.queue), ("making the model ready took", found.load))
        if value is not None
    ]
    note = "Prefill: TTFT beside the prefill that the server states; the rest is front end, network and queue"
    return Table(
        title=f"Times by {words.clean(found.who)}",
        columns=columns("phase", ">prompt", ">ours", ">server's", ">rest", ">requests"),
        rows=rows,
        note=f"{'; '.join([note, *before])}. Decode: time per token after the first.",
    )


def thinking(run: Run) -> str:
    """When it began to think and when to answer; empty when no answer held reasoning."""
    found = run.observation.reasoning if run.observation else None
    if found is None:
        return ""
    first = f"It thinks first: first thought after {words.amount(found.first_thinking)}"
    if found.first_answer is None:
        return f"{first}, no answer within the tokens asked for ({words.count(found.thoughts)} answers)"
    some = "" if found.answered == found.thoughts else f" ({found.answered} of {found.thoughts} answers came that far)"
    return f"{first}, first word of the answer after {words.amount(found.first_answer)}{some}"
