"""The jobs behind `phasewise models` and `phasewise accelerators`: rows by name, or by words in their names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from phasewise.hardware import catalogue as hardware
from phasewise.hardware.rows import normalised
from phasewise.model import catalogue
from phasewise.model.load import load
from phasewise.record.catalogue import AcceleratorFacts, ModelEntry

_Row = TypeVar("_Row")


def models(words: Sequence[str] = ()) -> tuple[ModelEntry, ...]:
    """The model of that name, else those that have every one of ``words`` in a name; all for no words.

    Raises:
        UsageError: none has.
        InputError: a row of the user's own is wrong.
    """
    rows = catalogue.rows()
    exact = catalogue.find(" ".join(words))
    found = [exact] if exact else _having(words, ((row, (row.name, *row.aliases)) for row in rows))
    if not found:
        raise catalogue.unknown(" ".join(words))
    return tuple(_entry(row) for row in found)


def _entry(row: catalogue.Row) -> ModelEntry:
    model = load(row.name)
    return ModelEntry(
        name=row.name,
        family=model.architecture.family,
        aliases=row.aliases,
        source=row.source,
        config=row.config,
        facts=model.facts(),
        origin=row.origin,
    )


def accelerators(words: Sequence[str] = ()) -> tuple[AcceleratorFacts, ...]:
    """The accelerator of that name, else those that have every one of ``words`` in a name, vendor or kind.

    Raises:
        UsageError: none has.
        InputError: a row of the user's own is wrong.
    """
    rows = hardware.accelerators()
    wanted = normalised(" ".join(words))
    found = [row for row in rows if wanted in map(normalised, (row.name, *row.aliases))]
    if not found:
        texts = ((row, (row.name, row.vendor, row.kind, *row.aliases, *row.shared_names)) for row in rows)
        found = _having(words, texts)
    if not found:
        hardware.find(" ".join(words))
    return tuple(hardware.facts(row) for row in found)


def _having(words: Sequence[str], rows: Iterable[tuple[_Row, tuple[str, ...]]]) -> list[_Row]:
    """Rows with every word somewhere in their texts; case, spaces, underscores and hyphens do not count."""
    parts = [normalised(word) for text in words for word in text.split()]
    return [row for row, texts in rows if all(any(part in normalised(text) for text in texts) for part in parts)]
