"""A remedy as a part of a document: the same keys everywhere; what its step was before differs by where it was seen."""

from __future__ import annotations

from phasewise.record.quantity import Quantity, predicted
from phasewise.record.remedies import Remedy


def fix(found: Remedy, before: Quantity, after: Quantity, *, share_of: str) -> dict[str, object]:
    """``found``; ``share_of`` says what ``saves_share`` is a share of."""
    return {
        "name": found.name,
        "phase": found.phase,
        "buys": found.buys,
        "saves_s": found.saves,
        "saves_share": predicted(found.saves_share, "1", share_of),
        "step_before_s": before,
        "step_after_s": after,
        "why": found.why,
        "verify": found.verify,
    }
