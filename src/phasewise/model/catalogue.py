"""The models that phasewise knows by name: rows of models.json, each with the shape's numbers and their source.

A row holds keys of the model's config.json, so it is counted by the same code as a file. Totals are computed, never
stored. Adding a model is one row, there or in the user's own models.json.
"""

from __future__ import annotations

import functools
import re
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec

from phasewise.errors import InputError, UsageError
from phasewise.model import config, user
from phasewise.model.keys import written
from phasewise.record.user import user_file


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One model: its catalogue name, other names for it, where the facts come from, and its config keys.

    ``origin`` is the file and line of a user's own row, empty for the rows that phasewise ships.
    """

    name: str
    aliases: tuple[str, ...]
    source: str
    config: dict[str, Any]
    origin: str = ""


class _Stored(msgspec.Struct, forbid_unknown_fields=True):
    aliases: tuple[str, ...]
    source: str
    config: dict[str, Any]


class _Own(msgspec.Struct, forbid_unknown_fields=True):
    config: dict[str, Any]
    aliases: tuple[str, ...] = ()
    source: str = "no source stated"


def rows() -> tuple[Row, ...]:
    """All rows in the file's order, then those of the user's ``models.json``.

    Raises:
        InputError: a row of the user's is bad, or takes a name that another has; the text names its line.
    """
    return _with(user_file(user.FILE))


@functools.cache
def _with(own: Path | None) -> tuple[Row, ...]:
    data = resources.files("phasewise.model").joinpath("models.json").read_bytes()
    stored = msgspec.json.decode(data, type=dict[str, _Stored])
    shipped = tuple(
        Row(name=name, aliases=row.aliases, source=row.source, config=row.config) for name, row in stored.items()
    )
    return (*shipped, *_of_user(own, {name.casefold() for row in shipped for name in (row.name, *row.aliases)}))


def _of_user(path: Path | None, taken: set[str]) -> list[Row]:
    """The rows in ``path``, each of which counts, under names that are not ``taken``."""
    found = []
    for entry in user.entries(path) if path else ():
        try:
            row = msgspec.convert(entry.value, _Own)
            config.architecture(row.config, f"{entry.where}, {written(entry.name)}")
        except msgspec.ValidationError as error:
            raise InputError(f"{entry.where}: {written(entry.name)} is no model ({error}).") from None
        except InputError:
            raise
        except UsageError as error:
            raise InputError(str(error)) from None
        for name in (entry.name, *row.aliases):
            if not re.fullmatch(r"[\w.+-][\w.+/-]{0,99}", name, re.ASCII) or name.casefold() in taken:
                why = "is the name of another model" if name.casefold() in taken else "is no name"
                raise InputError(f"{entry.where}: {written(name)} {why}: give the model a name of its own.")
            taken.add(name.casefold())
        source = f"{entry.where}: {row.source}"
        found.append(Row(name=entry.name, aliases=row.aliases, source=source, config=row.config, origin=entry.where))
    return found


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


def _by_name() -> dict[str, Row]:
    return {name.casefold(): row for row in rows() for name in (row.name, *row.aliases)}
