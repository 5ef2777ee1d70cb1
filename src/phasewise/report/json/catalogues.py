"""The catalogues as JSON: every fact of every row that was found, SI numbers with their provenance beside them."""

from __future__ import annotations

from phasewise.record.catalogue import AcceleratorFacts, ModelEntry
from phasewise.report.json.leaves import document


def models(rows: tuple[ModelEntry, ...]) -> dict[str, object]:
    """``models[]`` in the catalogue's order."""
    return document({"models": rows})


def accelerators(rows: tuple[AcceleratorFacts, ...]) -> dict[str, object]:
    """``accelerators[]`` in the catalogue's order."""
    return document({"accelerators": rows})
