"""Every meter, in the order in which they are tried. A new one is a file in this folder and a name here."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from phasewise.hardware.power import amd, apple, dcgm, nvml, rapl
from phasewise.hardware.power.base import Meter, Unreadable

METERS: tuple[tuple[str, Callable[[], Meter]], ...] = (
    (nvml.NAME, nvml.open_meter),
    (amd.NAME, amd.open_meter),
    (rapl.NAME, rapl.open_meter),
    (apple.NAME, apple.open_meter),
)
"""Of this machine: name and how to open it."""


class Tried(NamedTuple):
    """A meter that was tried: it, or why it cannot be read."""

    name: str
    meter: Meter | None
    why_not: str = ""


def tried(exporter: str = "") -> Iterator[Tried]:
    """Each meter of this machine, or the DCGM exporter at ``exporter`` alone. Whoever takes one closes it."""
    if exporter:
        named: Sequence[tuple[str, Callable[[], Meter]]] = ((dcgm.NAME, lambda: dcgm.open_meter(exporter)),)
    else:
        elsewhere = rapl.NAME if platform.system() == "Darwin" else apple.NAME
        named = [one for one in METERS if one[0] != elsewhere]
    for name, opened in named:
        try:
            yield Tried(name, opened())
        except Unreadable as missing:
            yield Tried(name, None, str(missing))
