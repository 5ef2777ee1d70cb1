"""Records to one JSON document: plain SI numbers, and beside them where each came from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeVar

import msgspec

from phasewise.record.quantity import Quantity
from phasewise.report.json.bare import ORIGINS, REASONS, Origin

T = TypeVar("T")


class Missing(msgspec.Struct, frozen=True):
    """A null with its reason."""

    reason: str


def document(
    value: object, origins: Mapping[str, Origin] | None = None, reasons: Mapping[str, str] | None = None
) -> dict[str, object]:
    """``value`` (a Struct or mapping, nested, with Quantity leaves) as a JSON document.

    A Quantity becomes its number in SI. ``provenance`` maps its dotted path (list items by index:
    ``prefill.points.0.ttft_s``) to unit, provenance, source and, when claimed, low and high; a bare number gets the
    origin of its name in ``bare.ORIGINS``. A ``Missing``, and any number that is not finite, becomes null, and
    ``reasons`` maps its path to why; so does an open field, by its name in ``bare.REASONS``.

    Args:
        value: the record.
        origins, reasons: what names mean in this document, before those of ``bare``; ``plan.requests`` is the name in
            that part alone.

    Raises:
        TypeError: ``value`` is not a record or mapping, or holds something that JSON cannot.
    """
    writer = _Writer(origins or {}, reasons or {})
    body = writer.walk(value, "", "")
    if not isinstance(body, dict):
        raise TypeError(f"a document is made of a record or a mapping, not of {type(value).__name__}")
    return {**body, "provenance": writer.provenance, "reasons": writer.reasons}


class _Writer:
    """The body of a document, and what is noted beside it on the way."""

    def __init__(self, origins: Mapping[str, Origin], reasons: Mapping[str, str]) -> None:
        self._origins, self._reasons = {**ORIGINS, **origins}, {**REASONS, **reasons}
        self.provenance: dict[str, object] = {}
        self.reasons: dict[str, str] = {}

    def walk(self, value: object, path: str, name: str) -> object:
        """``value`` at ``path``; ``name`` is the last part of it that is no index."""
        if isinstance(value, Quantity):
            self.provenance[path] = _origin(value)
            return self._number(value.value, path)
        if isinstance(value, Missing):
            self.reasons[path] = value.reason
            return None
        if isinstance(value, msgspec.Struct):
            value = {field: getattr(value, field) for field in value.__struct_fields__}
        if isinstance(value, Mapping):
            return {str(k): self.walk(v, f"{path}.{k}" if path else str(k), str(k)) for k, v in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.walk(item, f"{path}.{i}", name) for i, item in enumerate(value)]
        if isinstance(value, str):
            # A lone surrogate, which a server's JSON can smuggle in, cannot be written as UTF-8.
            return value.encode("utf-8", "replace").decode()
        return self._bare(value, path, name)

    def _bare(self, value: object, path: str, name: str) -> object:
        if value is None:
            if (why := _meant(self._reasons, path, name)) is not None:
                self.reasons[path] = why
            return None
        if isinstance(value, bool):
            return value
        if not isinstance(value, (int, float)):
            raise TypeError(f"{path} is a {type(value).__name__}, which JSON cannot hold")
        if (origin := _meant(self._origins, path, name)) is not None:
            self.provenance[path] = origin._asdict()
        return self._number(value, path)

    def _number(self, value: float, path: str) -> float | None:
        if math.isfinite(value):
            return value
        self.reasons[path] = "not a finite number"
        return None


def _meant(names: Mapping[str, T], path: str, name: str) -> T | None:
    """What ``name`` means in its part of the document, else anywhere; None where it means nothing."""
    parts = [part for part in path.split(".") if not part.isdecimal()]
    return names.get(".".join(parts[-2:]), names.get(name))


def _origin(quantity: Quantity) -> dict[str, object]:
    origin: dict[str, object] = {"unit": quantity.unit, "provenance": quantity.provenance}
    if quantity.source:
        origin["source"] = quantity.source
    ends = {"low": quantity.low, "high": quantity.high}
    return origin | {end: value for end, value in ends.items() if value is not None and math.isfinite(value)}
