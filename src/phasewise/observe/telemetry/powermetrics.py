"""`powermetrics --samplers cpu_power,gpu_power` on Apple silicon, as text: a block per sample, with its zone.

    *** Sampled system activity (Tue Jul 14 10:00:00 2026 -0700) (201.5ms elapsed) ***
    GPU HW active residency:  97.10% (...)
    Combined Power (CPU + GPU + ANE): 18378 mW

Its times have whole seconds; the time elapsed since the block before places the blocks within them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime

from phasewise.observe.telemetry.rows import Row, Rows, Unusable

FORM = "powermetrics"

_BLOCK = re.compile(r"^\*\*\* Sampled system activity \((?P<when>[^)]*)\) \((?P<elapsed>[\d.]+) ?ms elapsed\)")
_POWER = re.compile(r"^(?:Combined Power \(.*\)|Package Power): (\d+(?:\.\d+)?) (m?W)$")
_CLOCK = re.compile(r"^GPU(?: HW)? active frequency: +(\d+(?:\.\d+)?) MHz")
_BUSY = re.compile(r"^GPU(?: HW)? active residency: +(\d+(?:\.\d+)?)%")


def sniff(lines: list[str]) -> bool:
    """Whether a block of powermetrics begins among the first lines."""
    return any(_BLOCK.match(line) for line in lines)


def read(lines: list[str]) -> Rows:
    """A row per block: power of CPU, GPU and neural engine together.

    Raises:
        Unusable: no block with power.
    """
    rows = [Row(at, 0, values, name="Apple chip (CPU, GPU and neural engine)") for at, values in _placed(lines)]
    if not rows:
        raise Unusable("holds no combined power: run powermetrics --samplers cpu_power,gpu_power.")
    return Rows(rows, "utc", "mean since the sample before, as powermetrics estimates it")


def _placed(lines: list[str]) -> Iterator[tuple[float, dict[str, float]]]:
    """Each block's values at its middle: the whole second it says, moved on by what elapsed as far as that fits it."""
    last = None
    for said, elapsed, values in _blocks(lines):
        at = said if last is None or not said - 1 <= last + elapsed < said + 2 else last + elapsed
        last = at
        if "watts" in values:
            yield at - elapsed / 2, values


def _blocks(lines: list[str]) -> Iterator[tuple[float, float, dict[str, float]]]:
    block: tuple[float, float, dict[str, float]] | None = None
    for line in lines:
        begun = _BLOCK.match(line)
        if begun:
            if block is not None:
                yield block
            at = _unix(begun["when"])
            block = None if at is None else (at, float(begun["elapsed"]) / 1e3, {})
        elif block is not None:
            block[2].update(_value(line))
    if block is not None:
        yield block


def _value(line: str) -> dict[str, float]:
    if found := _POWER.match(line):
        return {"watts": float(found[1]) * (1e-3 if found[2] == "mW" else 1.0)}
    if found := _CLOCK.match(line):
        return {"sm_hz": float(found[1]) * 1e6}
    if found := _BUSY.match(line):
        return {"utilisation": float(found[1]) / 100}
    return {}


def _unix(said: str) -> float | None:
    try:
        return datetime.strptime(said, "%a %b %d %H:%M:%S %Y %z").timestamp()
    except ValueError:
        return None
