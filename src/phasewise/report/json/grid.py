"""A grid as one JSON document: its points as columns, so that a data frame takes them as they are."""

from __future__ import annotations

from phasewise.record.grid import Grid
from phasewise.report.json.bare import ORIGINS
from phasewise.report.json.leaves import document
from phasewise.report.view import grid


def points(found: Grid) -> dict[str, object]:
    """``points`` holds one list per column, all of one length; its provenance is that of whole columns."""
    tree = document(
        {
            "models": found.models,
            "axes": {"lengths": found.lengths.tolist(), "batches": found.batches.tolist()},
            "combinations": found.columns,
        }
    )
    origins: dict[str, object] = {
        f"points.{name}": {"unit": unit, "provenance": "predicted", "source": source}
        for name, (unit, source) in grid.UNITS.items()
    }
    stated = {name: ORIGINS[name]._asdict() for name in ("batch", "devices")} | {"length": ORIGINS["tokens"]._asdict()}
    origins |= {f"points.{name}": origin for name, origin in stated.items()}
    missing = {f"combinations.{i}": column.missing for i, column in enumerate(found.columns) if column.missing}
    provenance, reasons = tree.pop("provenance"), tree.pop("reasons")
    assert isinstance(provenance, dict)
    assert isinstance(reasons, dict)
    return {**tree, "points": grid.flat(found), "provenance": provenance | origins, "reasons": reasons | missing}
