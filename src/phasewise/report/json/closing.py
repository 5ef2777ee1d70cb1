"""The recap at the end of every document."""

from __future__ import annotations

from phasewise.record.run import Run
from phasewise.report.view.recap import recap


def close(run: Run, body: dict[str, object]) -> dict[str, object]:
    """``body`` with the recap as its last key: per phase the bound, yardstick, value, floor and fixes in words."""
    table = recap(run)
    phases = [column.name for column in table.columns[1:]]
    words = {phase: {row[0].text: row[i + 1].text for row in table.rows} for i, phase in enumerate(phases)}
    return {**body, "recap": words}
