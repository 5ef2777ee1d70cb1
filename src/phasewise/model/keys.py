"""Checked reading of a model's keys: each value is what it should be, or one sentence names the file and the key."""

from __future__ import annotations

from collections.abc import Mapping

from phasewise.errors import InputError

MOST = 10**9
"""No dimension of a model is larger; what is, is a damaged or hostile file."""

LAYERS = 10_000
"""The same for the number of layers."""


class Keys:
    """The keys of one config or of one GGUF header.

    ``where`` names the file in errors. ``defaults`` stand in for absent keys. ``prefix`` is put before each name:
    GGUF writes ``llama.block_count``.
    """

    def __init__(
        self, values: Mapping[str, object], where: str, *, defaults: Mapping[str, int] | None = None, prefix: str = ""
    ) -> None:
        self.values = values
        self.where = where
        self.prefix = prefix
        self._defaults = defaults or {}

    def get(self, name: str) -> object:
        """The value as it stands; None when it is absent or null and no default is known."""
        value = self.values.get(self.prefix + name)
        return self._defaults.get(name) if value is None else value

    def optional(self, name: str, most: int = MOST, least: int = 1) -> int | None:
        """A whole number from ``least`` to ``most``; None when absent or null.

        Raises:
            InputError: anything else.
        """
        value = self.get(name)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise self.error(name, f"must be a whole number from {least} to {most:,}")
        return value

    def count(self, name: str, most: int = MOST) -> int:
        """As ``optional``, for a key that must be there."""
        value = self.optional(name, most)
        if value is None:
            raise InputError(
                f"{self.where}: {self.prefix}{name} is missing: take the file as the model's maker made it."
            )
        return value

    def flag(self, name: str, default: bool = False) -> bool:
        """True or false; ``default`` when absent or null.

        Raises:
            InputError: anything else.
        """
        value = self.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.error(name, "must be true or false")
        return value

    def error(self, name: str, rule: str) -> InputError:
        """The error that says which key is wrong, what it holds and what it must be."""
        return InputError(
            f"{self.where}: {self.prefix}{name} {rule}, not {written(self.get(name))}: "
            "take the file as the model's maker made it."
        )


def written(value: object) -> str:
    """``value`` (of JSON or GGUF) in a few characters that are safe to show."""
    if isinstance(value, str | int | float | bool | None):
        text = repr(value)
        return text if len(text) <= 40 else f"{text[:37]}..."
    return "an object" if isinstance(value, dict) else "a list"


def shown(name: str) -> str:
    """A name from a file without control characters, cut to 100 characters."""
    return "".join(letter for letter in name if letter.isprintable())[:100]
