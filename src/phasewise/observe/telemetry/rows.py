"""What every reader of telemetry files gives: a row per device and moment, and whose clock its times are by."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

Clock = Literal["utc", "local", "day", "own", "none"]
"""Times of a file: ``utc`` Unix seconds; ``local`` seconds of a calendar without a zone, as if it were UTC; ``day``
seconds of a day, without its date; ``own`` seconds since a zero of its own; ``none`` it has none (0, 1, 2, ...)."""


class Row(NamedTuple):
    """One device at one moment: ``device`` as its driver counts, ``values`` by the fields of a Reading, in SI."""

    at: float
    device: int
    values: dict[str, float]
    uuid: str = ""
    name: str = ""


class Rows(NamedTuple):
    """A file's rows in their order, its clock, what its watts mean, and what was left out, a sentence each.

    ``averages_s`` and ``counter`` are as of a Device.
    """

    rows: list[Row]
    clock: Clock
    watts_are: str = ""
    counter: str = ""
    averages_s: float = 0.0
    notes: tuple[str, ...] = ()


class Reader(Protocol):
    """What a reader module has."""

    FORM: str
    """Name of the format, for the list that a refusal gives."""

    def sniff(self, lines: list[str]) -> bool:
        """Whether the file is of this format, from its first lines."""

    def read(self, lines: list[str]) -> Rows:
        """Everything the file holds.

        Raises:
            Unusable: its columns or rows are no use; the text says why and the cure.
        """


class Unusable(Exception):
    """A file of a known form that cannot be used; the text goes on after ``FILE``."""


NOT_SAID = ("", "-", "n/a", "nan", "not supported", "err!", "none", "unknown")
"""What monitors write where they have no number; longer ones (``[GPU requires reset]``, ``N/A (Secondary die)``) stand
in brackets or begin so."""

_NUMBER = re.compile(r"^([+-]?\d[\d .,_']*(?:[eE][+-]?\d+)?)\s*(.*)$")

_SCALES = {
    "w": 1.0,
    "mw": 1e-3,
    "kw": 1e3,
    "j": 1.0,
    "mj": 1e-3,
    "uj": 1e-6,
    "µj": 1e-6,
    "kj": 1e3,
    "hz": 1.0,
    "khz": 1e3,
    "mhz": 1e6,
    "ghz": 1e9,
}


_NEARLY_ALL = 0.9
"""Part of a file's rows that must have their times by one clock; the others are taken for damaged."""


def by_one_clock(found: Sequence[tuple[Row, Clock]]) -> tuple[list[Row], Clock, int]:
    """The rows whose times are by the clock of nearly all, that clock, and how many rows are not.

    Raises:
        Unusable: rows of several clocks, none of which is that of nearly all.
    """
    clock, count = Counter(clock for _, clock in found).most_common(1)[0]
    if count < _NEARLY_ALL * len(found):
        raise Unusable("has rows with a time and rows without: leave out those without.")
    return [row for row, own in found if own == clock], clock, len(found) - count


def number(text: str) -> float | None:
    """``123.45 W`` as 123.45, ``123,45`` and ``1,234.5`` alike; None for what is no number.

    The unit behind it is left to ``scale``.
    """
    text = text.strip().strip('"').strip()
    if text.lower() in NOT_SAID or text.startswith("["):
        return None
    found = _NUMBER.match(text)
    if not found:
        return None
    digits = found[1].strip().replace(" ", "").replace("_", "").replace("'", "")
    if "," in digits and "." in digits:
        thousands = "," if digits.rindex(".") > digits.rindex(",") else "."
        digits = digits.replace(thousands, "")
    try:
        value = float(digits.replace(",", "."))
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def scale(text: str, usual: float = 1.0) -> float:
    """Factor to SI of the unit in ``text`` (``power.draw [mW]``, ``130 mW``); ``usual`` where it names none of ours."""
    found = re.findall(r"[A-Za-zµ]+", text)
    return _SCALES.get(found[-1].lower(), usual) if found else usual
