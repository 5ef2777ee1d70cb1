"""Records to one JSON document: plain SI numbers, and beside them where each came from."""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec

from phasewise.record.quantity import Quantity


class Missing(msgspec.Struct, frozen=True):
    """A null with its reason."""

    reason: str


def document(value: object) -> dict[str, object]:
    """``value`` (a Struct or mapping, nested, with Quantity leaves) as a JSON document.

    A Quantity becomes its number in SI. ``provenance`` maps its dotted path (list items by index:
    ``prefill.points.0.ttft_s``) to unit, provenance, source and, when claimed, low and high. A ``Missing``, and any
    number that is not finite, becomes null, and ``reasons`` maps its path to why.

    Raises:
        TypeError: ``value`` is not a record or mapping, or holds something that JSON cannot.
    """
    provenance: dict[str, object] = {}
    reasons: dict[str, str] = {}
    body = _walk(value, "", provenance, reasons)
    if not isinstance(body, dict):
        raise TypeError(f"a document is made of a record or a mapping, not of {type(value).__name__}")
    return {**body, "provenance": provenance, "reasons": reasons}


def _walk(value: object, path: str, provenance: dict[str, object], reasons: dict[str, str]) -> object:
    if isinstance(value, Quantity):
        provenance[path] = _origin(value)
        return _number(value.value, path, reasons)
    if isinstance(value, Missing):
        reasons[path] = value.reason
        return None
    if isinstance(value, msgspec.Struct):
        value = {name: getattr(value, name) for name in value.__struct_fields__}
    if isinstance(value, Mapping):
        return {str(k): _walk(v, f"{path}.{k}" if path else str(k), provenance, reasons) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_walk(item, f"{path}.{i}", provenance, reasons) for i, item in enumerate(value)]
    if isinstance(value, float):
        return _number(value, path, reasons)
    if isinstance(value, str):
        # A lone surrogate, which a server's JSON can smuggle in, cannot be written as UTF-8.
        return value.encode("utf-8", "replace").decode()
    if value is None or isinstance(value, (int, bool)):
        return value
    raise TypeError(f"{path} is a {type(value).__name__}, which JSON cannot hold")


def _number(value: float, path: str, reasons: dict[str, str]) -> float | None:
    if math.isfinite(value):
        return value
    reasons[path] = "not a finite number"
    return None


def _origin(quantity: Quantity) -> dict[str, object]:
    origin: dict[str, object] = {"unit": quantity.unit, "provenance": quantity.provenance}
    if quantity.source:
        origin["source"] = quantity.source
    ends = {"low": quantity.low, "high": quantity.high}
    return origin | {end: value for end, value in ends.items() if value is not None and math.isfinite(value)}
