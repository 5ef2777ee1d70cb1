"""A phase's verdict as a part of a document: the same keys in `profile` and in `judge`."""

from __future__ import annotations

from phasewise.record.judgement import PhaseVerdict
from phasewise.record.quantity import Quantity
from phasewise.report.json.leaves import Missing
from phasewise.report.view import phases


def verdict(found: PhaseVerdict, at: Quantity) -> dict[str, object]:
    """``found``; ``at`` is its ``at_tokens``, by whose word it stands there."""
    null = Missing(found.why_null or "not judged")
    return {
        "mfu": phases.utilisation(found, "mfu") or null,
        "mbu": phases.utilisation(found, "mbu") or null,
        "yardstick": found.yardstick,
        "bound": found.bound,
        "rival": found.rival or Missing("no other part may be the largest"),
        "at_tokens": at,
        "step_s": found.step,
        "floor_s": found.floor or Missing(found.why_null or "no floor was predicted"),
        "believed": found.believed,
        "shares": found.shares,
        "utilisations": found.utilisations,
        "notes": found.notes,
    }


def no_verdict(why: Missing) -> dict[str, object]:
    """The same keys where there is none."""
    keys = ("mfu", "mbu", "yardstick", "bound", "rival", "at_tokens", "step_s", "floor_s", "believed")
    return {**dict.fromkeys(keys, why), "shares": [], "utilisations": [], "notes": []}
