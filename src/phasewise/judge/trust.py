"""What the user said of the server against what the server says of itself."""

from __future__ import annotations

from collections.abc import Iterator

from phasewise.model import catalogue
from phasewise.model.model import Model
from phasewise.record.target import Reported, Target
from phasewise.units import show


def contradictions(model: Model | None, target: Target) -> tuple[str, ...]:
    """One sentence per place where the stated model and the server's own words differ."""
    if model is None:
        return ()
    reported = {entry.key: entry for entry in target.reported}
    found = [*_named(model, reported.get("model"))]
    for key, ours, unit in (
        ("parameters", float(model.parameters), ""),
        ("weight_bytes", model.resident_bytes, "B"),
        ("vocabulary", float(model.architecture.vocab), ""),
    ):
        entry = reported.get(key)
        theirs = _number(entry.value) if entry else None
        if entry and theirs and abs(theirs / ours - 1) > 0.03:
            shown = (show(theirs, unit), show(ours, unit)) if unit else (f"{theirs:,.0f}", f"{ours:,.0f}")
            found.append(f"{entry.where} says {shown[0]} {key}, {model.name} has {shown[1]}: is --model right?")
    return tuple(found)


def _named(model: Model, entry: Reported | None) -> Iterator[str]:
    """A sentence when the server's name for its model is another model of the catalogue."""
    if entry is None:
        return
    theirs = catalogue.find(entry.value) or catalogue.find(entry.value.rstrip("/").rpartition("/")[2])
    if theirs is not None and theirs.name != model.name and catalogue.find(model.name) is not None:
        yield f"{entry.where} says that it serves {entry.value}, --model says {model.name}."


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
