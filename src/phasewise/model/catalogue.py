"""The models that phasewise knows by name: rows of models.json, each with the shape's numbers and their source.

A row holds keys of the model's config.json, so it is counted by the same code as a file. Totals are computed, never
stored. Adding a model is one row.
"""

from __future__ import annotations

import functools
from importlib import resources
from typing import Any

import msgspec

from phasewise.errors import UsageError
from phasewise.model.keys import written


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One model: its catalogue name, other names for it, where the facts come from, and its config keys."""

    name: str
    aliases: tuple[str, ...]
    source: str
    config: dict[str, Any]


class _Stored(msgspec.Struct, forbid_unknown_fields=True):
    aliases: tuple[str, ...]
    source: str
    config: dict[str, Any]


@functools.cache
def rows() -> tuple[Row, ...]:
    """All rows, in the file's order."""
    data = resources.files("phasewise.model").joinpath("models.json").read_bytes()
    stored = msgspec.json.decode(data, type=dict[str, _Stored])
    return tuple(
        Row(name=name, aliases=row.aliases, source=row.source, config=row.config) for name, row in stored.items()
    )


def find(name: str) -> Row | None:
    """The row of that name or alias, in any case; None when there is none. Nothing is guessed."""
    return _by_name().get(name.casefold())


def unknown(name: str) -> UsageError:
    """The error for a name that ``find`` does not know: the nearest names, and what else MODEL may be."""
    import difflib

    names = _by_name()
    text = name.casefold()
    near = [names[key].name for key in names if text and text in key]
    near += [names[key].name for key in difflib.get_close_matches(text, names, n=5, cutoff=0.5)]
    some = ", ".join(list(dict.fromkeys(near))[:5])
    hint = f"did you mean {some}?" if some else "`phasewise models` lists them."
    return UsageError(
        f"{written(name)} is no model in the catalogue: {hint} MODEL may also be a config.json, a model directory or a "
        ".gguf file."
    )


@functools.cache
def _by_name() -> dict[str, Row]:
    return {name.casefold(): row for row in rows() for name in (row.name, *row.aliases)}
