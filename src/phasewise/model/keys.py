"""Checked reading of a model's keys: each value is what it should be, or one sentence names the file and the key."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from phasewise.errors import InputError, UsageError

MOST = 10**9
"""No dimension of a model is larger; what is, is a damaged or hostile file."""

LAYERS = 10_000
"""The same for the number of layers."""


class Keys:
    """The keys of one config or of one GGUF header.

    ``where`` names the file in errors. ``defaults`` stand in for absent keys; ``fills`` do so too, and are then listed
    in ``assumed``. ``aliases`` gives a key's other name (GPT-2's ``n_embd`` is hidden_size). ``prefix`` is put before
    each name: GGUF writes ``llama.block_count``. ``read`` holds the names that were asked for.
    """

    def __init__(
        self,
        values: Mapping[str, object],
        where: str,
        *,
        defaults: Mapping[str, object] | None = None,
        fills: Mapping[str, object] | None = None,
        aliases: Mapping[str, str] | None = None,
        prefix: str = "",
    ) -> None:
        self.values = values
        self.where = where
        self.prefix = prefix
        self.read: set[str] = set()
        self.assumed: dict[str, object] = {}
        self.nested = bool(defaults)
        self._defaults = defaults or {}
        self._fills = fills or {}
        self._aliases = aliases or {}

    def get(self, name: str) -> object:
        """The value as it stands; None when it is absent or null and no default is known."""
        for key in (name, self._aliases.get(name, name)):
            self.read.add(key)
            value = self.values.get(self.prefix + key)
            if value is not None:
                return value
        if name in self._defaults:
            return self._defaults[name]
        if name in self._fills and name not in self.values and self._aliases.get(name) not in self.values:
            self.assumed[self._aliases.get(name, name)] = self._fills[name]
        return self._fills.get(name)

    def part(self, name: str, defaults: Mapping[str, object] | None = None) -> Keys:
        """The keys of the object in ``name``; none when it is absent.

        Raises:
            InputError: it is no object.
        """
        value = self.get(name)
        if value is None:
            value = {}
        if not isinstance(value, dict):
            raise self.error(name, "must be an object")
        return Keys(value, f"{self.where}: {name}", defaults=defaults)

    def numbers(self, name: str, length: int | None = None) -> list[int] | None:
        """A list of whole numbers, of ``length`` when that is given; None when absent.

        Raises:
            InputError: anything else.
        """
        value = self.get(name)
        if value is None:
            return None
        if not isinstance(value, list) or (length is not None and len(value) < length):
            raise self.error(name, "must be a list of " + ("" if length is None else f"{length} ") + "whole numbers")
        if not all(isinstance(n, int) and not isinstance(n, bool) and 0 <= n <= MOST for n in value):
            raise self.error(name, "must be a list of whole numbers")
        return value[:length]

    def words(self, name: str, length: int, known: Collection[str]) -> list[str] | None:
        """A list of ``length`` names, each one of ``known``; None when absent.

        Raises:
            InputError: not such a list.
            UsageError: a name that is not known.
        """
        value = self.get(name)
        if value is None:
            return None
        if not isinstance(value, list) or len(value) != length:
            raise self.error(name, f"must be a list of {length} names")
        for word in value:
            if word not in known:
                raise UsageError(f"{self.where}: layers of type {written(word)} ({name}) are not modelled yet.")
        return value

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
