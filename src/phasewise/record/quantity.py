"""A number that says what it is: value, interval, unit, provenance and source."""

from __future__ import annotations

import math
from typing import Literal

import msgspec

from phasewise.units import Unit, show

Provenance = Literal["measured", "predicted", "datasheet", "reported", "assumed"]
"""Where a number comes from.

``measured`` by us; ``predicted`` by our arithmetic; ``datasheet`` from the vendor; ``reported`` by a server, a trace or
another tool; ``assumed`` by a default or a source nobody has checked.
"""


class Quantity(msgspec.Struct, frozen=True, kw_only=True):
    """A value in SI with its interval, unit and provenance.

    Attributes:
        value: the number, in ``unit`` without prefixes.
        low: lower end of its interval, or None when no interval is claimed.
        high: upper end of its interval.
        unit: one of ``units.Unit``; ``"1"`` is a ratio.
        provenance: who says so.
        source: one phrase on how it was obtained, e.g. ``"fit of TTFT over 6 lengths"``.
    """

    value: float
    unit: Unit
    provenance: Provenance
    source: str = ""
    low: float | None = None
    high: float | None = None

    def __str__(self) -> str:
        text = show(self.value, self.unit)
        if self.low is None or self.high is None:
            return text
        return f"{text} ({show(self.low, self.unit)} to {show(self.high, self.unit)})"

    @property
    def one_sided(self) -> Literal["at least", "at most", ""]:
        """What stands before a value that is itself one end of its interval, the other end being open."""
        if self.low == self.value and self.high is None:
            return "at least"
        return "at most" if self.high == self.value and self.low is None else ""

    def over(self, other: Quantity, *, unit: Unit, provenance: Provenance, source: str) -> Quantity:
        """This divided by ``other``, with the widest interval that the two intervals allow."""
        low, high = self.low, self.high
        if other.low or other.high or low is not None or high is not None:
            low = (self.value if low is None else low) / (other.high or other.value)
            high = _ratio(self.value if high is None else high, other.value if other.low is None else other.low)
        return Quantity(
            value=_ratio(self.value, other.value), low=low, high=high, unit=unit, provenance=provenance, source=source
        )


def _ratio(above: float, below: float) -> float:
    return above / below if below > 0 else math.inf


def measured(value: float, unit: Unit, source: str, low: float | None = None, high: float | None = None) -> Quantity:
    """A number that phasewise itself measured."""
    return Quantity(value=value, low=low, high=high, unit=unit, provenance="measured", source=source)


def predicted(value: float, unit: Unit, source: str) -> Quantity:
    """A number that phasewise computed from other numbers."""
    return Quantity(value=value, unit=unit, provenance="predicted", source=source)


def reported(value: float, unit: Unit, source: str) -> Quantity:
    """A number that a server, a trace or another tool said."""
    return Quantity(value=value, unit=unit, provenance="reported", source=source)


def assumed(value: float, unit: Unit, source: str) -> Quantity:
    """A number taken on trust."""
    return Quantity(value=value, unit=unit, provenance="assumed", source=source)
