"""An examination as JSON: every line with its key, and every way of using phasewise with what it lacks."""

from __future__ import annotations

from phasewise.record.doctor import Examination
from phasewise.report.json.leaves import document


def doctor(examination: Examination) -> dict[str, object]:
    """``findings[].{key,area,what,status,detail,cure}`` and ``verbs[].{verb,works,lacks}``."""
    return document(examination)
