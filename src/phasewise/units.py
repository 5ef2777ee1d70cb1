"""Quantities in and out: the one place where 1e9 and 2**30 meet.

Inside phasewise every number is plain SI: seconds, bytes, FLOP, FLOP/s, bytes/s. ``parse`` takes what people write
(``3.35TB/s``, ``989 TFLOPS``, ``80GiB``), ``show`` writes what people read (``4.87 ms``, ``3.35 TB/s``).
Decimal prefixes mean powers of 1000 and only the binary ones (Ki, Mi, Gi, Ti) mean powers of 1024.
"""

from __future__ import annotations

import math
import re
from typing import Literal

from phasewise.errors import UsageError

Unit = Literal[
    "s",
    "B",
    "B/s",
    "FLOP",
    "FLOP/s",
    "token",
    "token/s",
    "token/chunk",
    "s/token",
    "s/token^2",
    "request",
    "request/s",
    "parameter",
    "layer",
    "device",
    "block",
    "message",
    "W",
    "J",
    "J/token",
    "Hz",
    "°C",
    "1",
]
"""Units a number may carry; ``"1"`` is a plain ratio, shown as a percentage."""

_COUNTED = ("token", "request", "parameter", "layer", "device", "block", "message")
"""Whole things, shown in full and in the plural."""

_DECIMAL = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
_WRITTEN: dict[str, tuple[str, ...]] = {
    "B/s": ("B/s", "Bps"),
    "FLOP/s": ("FLOP/s", "FLOPS", "FLOPs", "FLOPs/s", "OP/s", "OPS"),
    "B": ("B", "bytes"),
    "s": ("s", "sec"),
}
_NUMBER = re.compile(r"^\s*([0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?)\s*(.*?)\s*$")


def parse(text: str, unit: Unit) -> float:
    """Read ``text`` as a quantity of ``unit`` and return it in SI.

    >>> parse("3.35TB/s", "B/s")
    3350000000000.0

    Raises:
        UsageError: no number, an unknown unit or prefix, or a value that is not positive and finite.
    """
    found = _NUMBER.match(text)
    examples = {"B/s": "3.35TB/s", "FLOP/s": "989TFLOP/s", "B": "80GB", "s": "90s"}
    hint = f"write a number with its unit, for example {examples.get(unit, '1')}"
    if not found:
        raise UsageError(f"{text!r} is not a quantity in {unit}: {hint}.")
    value, suffix = float(found[1]), found[2]
    for written in _WRITTEN.get(unit, (unit,)):
        if suffix.endswith(written):
            prefix = suffix.removesuffix(written).strip()
            scale = _BINARY.get(prefix) or _DECIMAL.get(prefix) or _small(prefix, unit)
            if scale and math.isfinite(value * scale) and value > 0:
                return value * scale
    raise UsageError(f"{text!r} is not a quantity in {unit}: {hint}.")


def _small(prefix: str, unit: Unit) -> float | None:
    return {"m": 1e-3, "u": 1e-6, "µ": 1e-6, "n": 1e-9, "p": 1e-12, "f": 1e-15}.get(prefix) if unit == "s" else None


def show(value: float | None, unit: str, digits: int = 3) -> str:
    """Write ``value`` (SI) for a person: ``show(0.00487, "s")`` is ``"4.87 ms"``; None is ``"n/a"``."""
    if value is None or math.isnan(value):
        return "n/a"
    if math.isinf(value):
        return f"{value} {unit}" if unit != "1" else f"{value}"
    if unit == "1":
        return f"{_round(100 * value, digits)}%" if abs(value) < 1e9 else f"{100 * value:.3g}%"
    if unit in _COUNTED:
        number = f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.1f}"
        return f"{number} {unit}{'' if value == 1 else 's'}"
    if unit in ("token/chunk", "request/s"):
        return f"{_round(value, digits)} {unit}"
    if unit.startswith("s"):
        return _scaled(
            value, unit, digits, (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9), ("ps", 1e-12), ("fs", 1e-15))
        )
    steps = tuple((prefix + unit, scale) for prefix, scale in reversed(_DECIMAL.items()) if prefix != "K")
    return _scaled(value, unit, digits, steps)


def _scaled(value: float, unit: str, digits: int, steps: tuple[tuple[str, float], ...]) -> str:
    rest = unit.removeprefix("s") if unit.startswith("s") else ""
    for name, scale in steps:
        # The bound sits half a digit low so that 999.96 reads as 1.00 of the next prefix, not as 1,000.
        if abs(value) >= scale * (1 - 0.5 * 10.0**-digits):
            return f"{_round(value / scale, digits)} {name}{rest}"
    return f"0 {unit}" if value == 0 else f"{value:.{digits}g} {unit}"


def _round(value: float, digits: int) -> str:
    if value == 0:
        return "0"
    value = float(f"{value:.{digits}g}") if abs(value) < 10.0**digits else value
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value)) + 1e-12))
    return f"{value:,.{decimals}f}" if abs(value) >= 10.0 ** (1 - digits) else f"{value:.2g}"
