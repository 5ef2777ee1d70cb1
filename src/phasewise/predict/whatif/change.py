"""The protocol of a change, and how its value is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from phasewise.errors import UsageError
from phasewise.predict.whatif.setup import Setup
from phasewise.record.quantity import Quantity


class Refused(Exception):
    """A change that would do nothing, or could not be made, with the reason in one sentence without a full stop."""


class Changed(NamedTuple):
    """The setup after a change, and what should be said of it."""

    setup: Setup
    notes: tuple[str, ...] = ()
    figures: Mapping[str, Quantity] = MappingProxyType({})


class Change(NamedTuple):
    """Something that can be changed.

    Attributes:
        name: as written before the ``=``.
        example: a value, for --help and errors.
        apply: the changed setup; raises ``Refused``, or ``UsageError`` for a value that is not one.
        before: what the figures before must hold for this change to be one (graphs: every launch).
    """

    name: str
    example: str
    apply: Callable[[str, Setup], Changed]
    before: Callable[[Setup], Setup] = lambda setup: setup


def whole(name: str, value: str, *, example: str, least: int = 1, most: int = 1_000_000) -> int:
    """``value`` as a whole number.

    Raises:
        UsageError: it is none, or out of bounds.
    """
    number = int(value) if value.isascii() and value.isdigit() and len(value) < 12 else -1
    if not least <= number <= most:
        raise UsageError(
            f"--what-if {name}={value[:40]!r} is not a whole number from {least} to {most:,}: write {name}={example}."
        )
    return number


def fraction(name: str, value: str, *, example: str) -> float:
    """``value`` as a number from 0 to 1; ``80%`` is 0.8.

    Raises:
        UsageError: it is none.
    """
    text, scale = (value[:-1], 100.0) if value.endswith("%") else (value, 1.0)
    try:
        number = float(text) / scale
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1:
        raise UsageError(f"--what-if {name}={value[:40]!r} is not a number from 0 to 1: write {name}={example}.")
    return number


def unless_same(same: bool, what: str) -> None:
    """Refuse a change to what is there already."""
    if same:
        raise Refused(f"{what} already")
