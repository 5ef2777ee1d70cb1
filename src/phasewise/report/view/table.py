"""Tables and bars before they meet a form."""

from __future__ import annotations

import msgspec

from phasewise.record.quantity import Quantity
from phasewise.report.view import words


class Cell(msgspec.Struct, frozen=True):
    """Text to show, and the quantity behind it when there is one (for its unit, interval and provenance)."""

    text: str
    quantity: Quantity | None = None


class Column(msgspec.Struct, frozen=True):
    """A heading; numbers stand to the right."""

    name: str
    numeric: bool = False


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """Rows under headings. ``note`` is a sentence below it, or instead of it when there are no rows."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a bar: ``key`` chooses its colour, ``fraction`` (0 to 1) its length."""

    key: str
    label: str
    seconds: Quantity
    fraction: float


def say(text: object) -> Cell:
    """A cell of words."""
    return Cell(words.clean(text))


def give(quantity: Quantity | None, digits: int = 3) -> Cell:
    """A cell with a quantity's value."""
    return Cell(words.amount(quantity, digits), quantity)


def give_share(quantity: Quantity | None) -> Cell:
    """A cell with a share, one decimal."""
    return Cell(words.share(quantity.value if quantity else None), quantity)


def columns(*names: str) -> tuple[Column, ...]:
    """Headings; a name that starts with ``>`` heads numbers."""
    return tuple(Column(name.removeprefix(">"), name.startswith(">")) for name in names)
