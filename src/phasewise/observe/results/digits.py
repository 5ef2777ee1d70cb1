"""Numbers that a person wrote, each as good as its last digit.

A number is taken to lie within half a unit of its last digit, after ``~`` within a whole one. A round prompt length (a
multiple of 1,000 or of 1,024) is a nominal one and taken as good to 10%: prompts "of 2k" seldom are (InferenceX #356,
SGLang #15732).
"""

from __future__ import annotations

import re

from phasewise.errors import UsageError
from phasewise.observe.results.figures import between
from phasewise.record.quantity import Quantity
from phasewise.units import Unit, parse

NOMINAL = 0.1
"""How far a prompt may be from a round length that is stated."""

_NUMBER = re.compile(r"^(\d[\d,_]*(?:\.\d*)?|\.\d+)(?:[eE]([+-]?\d{1,2}))?")
_RATE = re.compile(r"\s*(tok(en)?s?\s*/\s*s(ec)?|t/s|tps)?$")
_MOST_TOKENS = 10**8


def prompt(text: str | None) -> Quantity | None:
    """A prompt's length; a round one is nominal. None for None.

    Raises:
        UsageError: no number of tokens.
    """
    found = tokens(text, "--prefill-tokens")
    if found is None or not (found.value % 1000 == 0 or found.value % 1024 == 0):
        return found
    low, high = (1 - NOMINAL) * found.value, (1 + NOMINAL) * found.value
    return between(found.value, low, high, "token", "--prefill-tokens, a round length")


def tokens(text: str | None, flag: str) -> Quantity | None:
    """A number of tokens: ``2000``, ``16k``, ``~16k``. None for None.

    Raises:
        UsageError: no number of tokens.
    """
    if text is None:
        return None
    bare, about = text.strip().removeprefix("~"), text.strip().startswith("~")
    kilo = bare[-1:] in ("k", "K")
    value, half = _digits(bare.removesuffix("k").removesuffix("K"), flag, text, "a number of tokens, for example 2000")
    scale = 1000.0 if kilo else 1.0
    value, half = value * scale, half * scale * (2 if about else 1)
    if not 1 <= value <= _MOST_TOKENS or (value != int(value)):
        raise UsageError(f"{flag} {text!r} is not a number of tokens: write one from 1 to {_MOST_TOKENS:,}.")
    if half <= 0.5 and not about:
        return between(value, None, None, "token", flag)
    return between(value, max(1.0, value - half), value + half, "token", flag)


def time(text: str, flag: str) -> Quantity:
    """A time with its unit.

    Raises:
        UsageError: none.
    """
    bare = text.strip().removeprefix("~")
    try:
        seconds = parse(bare, "s")
    except UsageError:
        raise UsageError(
            f"{flag} {text!r} is no time: write a number with its unit, for example 50ms or 1.2s."
        ) from None
    return _written(bare, seconds, "s", flag, text)


def rate(text: str, flag: str) -> Quantity:
    """Tokens a second, with or without that unit.

    Raises:
        UsageError: none.
    """
    bare = text.strip().removeprefix("~")
    number = _NUMBER.match(bare)
    if not number or not _RATE.match(bare[number.end() :]):
        raise UsageError(f"{flag} {text!r} is no rate: write tokens a second, for example 46.3.")
    value, _ = _digits(number[0], flag, text, "tokens a second, for example 46.3")
    return _written(number[0], value, "token/s", flag, text)


def _written(bare: str, value: float, unit: Unit, flag: str, text: str) -> Quantity:
    """``value`` with the interval of the digits that ``bare`` writes it with."""
    number, half = _digits(bare, flag, text, "a number")
    half *= value / number * (2 if text.strip().startswith("~") else 1)
    return between(value, max(value - half, value / 2), value + half, unit, flag)


def _digits(text: str, flag: str, whole: str, what: str) -> tuple[float, float]:
    """The number that ``text`` begins with, and half a unit of its last digit."""
    match = _NUMBER.match(text)
    if not match:
        raise UsageError(f"{flag} {whole!r} is not {what}.")
    plain = match[1].replace(",", "").replace("_", "")
    power = int(match[2] or 0)
    value = float(plain) * 10.0**power
    if not 0 < value < 1e15:
        raise UsageError(f"{flag} {whole!r} is not {what}.")
    return value, 0.5 * 10.0 ** (power - len(plain.partition(".")[2]))
