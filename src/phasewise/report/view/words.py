"""Numbers as a person reads them, and names from outside made harmless."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Sequence

from phasewise.record.judgement import Bound
from phasewise.record.quantity import Provenance, Quantity
from phasewise.units import show

SENTENCE, NAME = 800, 120
"""Longest sentence and longest name that are shown, in characters."""

NOTHING = "n/a"
"""Stands where there is no finite number."""

MARKS: dict[Provenance, tuple[str, str]] = {
    "measured": ("m", "by phasewise, on this target"),
    "predicted": ("p", "by phasewise's arithmetic"),
    "datasheet": ("d", "by the vendor"),
    "reported": ("r", "by a server, a trace or another tool, of itself"),
    "assumed": ("a", "a default, a flag, or a source that nobody has checked"),
}
"""The letter of each provenance and what it means."""

BOUNDS: dict[Bound, str] = {
    "compute": "compute-bound",
    "memory": "memory-bound",
    "overhead": "overhead-bound",
    "kernel": "kernel-bound",
    "communication": "communication-bound",
    "power": "power-bound",
    "queue": "queue-bound",
    "client": "client-bound",
    "unknown": "unknown",
}
"""Each bound in one word."""

PARTS: dict[Bound, str] = {
    "compute": "compute floor",
    "memory": "memory floor",
    "overhead": "overhead",
    "kernel": "kernel excess",
}
"""What a share of a step is called; any other keeps its own name."""

_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor moves
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"  # OSC, DCS, ...: titles, links
    r"|\x1b[ -/]*[0-~]?"
)
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})
_BREAKS = frozenset({"Zl", "Zp", "Zs"})


def clean(text: object, limit: int = SENTENCE) -> str:
    """``text`` on one line without control, formatting, private or unpaired characters, cut at ``limit``.

    Terminal escape sequences go as a whole, so that no ``[31m`` is left behind.
    """
    visible = _ESCAPES.sub("", str(text)[: 20 * limit])
    kept = [_visible(character) for character in visible]
    line = " ".join("".join(kept).split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def name(text: object) -> str:
    """A clean name: of a model, a machine, a server, a file."""
    return clean(text, NAME)


def _visible(character: str) -> str:
    if character in "\t\n\r\v\f":
        return " "
    category = unicodedata.category(character)
    if category in _BREAKS:
        return " "
    return "" if category in _UNSEEN else character


def finite(value: float | None) -> bool:
    """Whether there is a number to show."""
    return value is not None and math.isfinite(value)


def number(value: float | None, unit: str, digits: int = 3) -> str:
    """``value`` in ``unit`` with its prefix, ``n/a`` when there is none."""
    return show(value, unit, digits) if finite(value) else NOTHING


def amount(quantity: Quantity | None, digits: int = 3) -> str:
    """A quantity's value, without its interval; ``at least 29.3%`` where the other end is open."""
    if quantity is None:
        return NOTHING
    return f"{quantity.one_sided} {number(quantity.value, quantity.unit, digits)}".lstrip()


def interval(quantity: Quantity | None) -> str:
    """``51.9 to 52.8 ms``, or nothing when no interval is claimed."""
    if quantity is None or not (finite(quantity.low) and finite(quantity.high)):
        return ""
    low, high = number(quantity.low, quantity.unit), number(quantity.high, quantity.unit)
    value, _, unit = low.partition(" ")
    return f"{value if unit and high.endswith(' ' + unit) else low} to {high}"


def share(value: float | None) -> str:
    """A part of a whole: one decimal, so that 96.4% and 3.6% add up."""
    return f"{100 * value:.1f}%" if value is not None and math.isfinite(value) else NOTHING


def times(value: float | None) -> str:
    """A gain: ``×31.8``, ``×300``."""
    if value is None or not math.isfinite(value):
        return NOTHING
    return f"×{value:.1f}" if abs(value) < 100 else f"×{value:,.0f}"


def count(value: float | None) -> str:
    """A whole number of things: ``2,000``."""
    return f"{value:,.0f}" if value is not None and math.isfinite(value) else NOTHING


def origin(quantity: Quantity | None) -> str:
    """``measured: fit of TTFT over 6 lengths``."""
    if quantity is None:
        return ""
    source = clean(quantity.source)
    return f"{quantity.provenance}: {source}" if source else quantity.provenance


def short(text: str) -> str:
    """``text`` without what stands in brackets, for the second time that it is said."""
    kept, depth = [], 0
    for character in clean(text):
        depth += character == "("
        if not depth:
            kept.append(character)
        depth -= depth > 0 and character == ")"
    return re.sub(r"\s+([.,;:]|$)", r"\1", " ".join("".join(kept).split())) if not depth else clean(text)


def bound(name: Bound, rival: Bound | None) -> str:
    """``memory-bound``; ``overhead- or kernel-bound`` where the run cannot tell the two apart."""
    return BOUNDS[name] if rival is None else f"{BOUNDS[name].removesuffix('bound')} or {BOUNDS[rival]}"


def part(name: str) -> str:
    """What a share of a step is called."""
    return next((label for bound, label in PARTS.items() if bound == name), clean(name))


def listed(items: Sequence[str]) -> str:
    """``a, b and c``."""
    return " and ".join([", ".join(items[:-1]), items[-1]]) if len(items) > 1 else "".join(items)
