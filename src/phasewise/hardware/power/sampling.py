"""The program that samples beside a run, in a process of its own: the timing client's interpreter never waits for it.

``python -m phasewise.hardware.power.sampling SETTINGS FD`` says on stdout which devices it reads (one JSON ``Ready``),
then writes a JSON ``Reading`` per line into file descriptor FD until its stdin ends.
"""

from __future__ import annotations

import os
import select
import sys
import time

import msgspec

from phasewise.hardware.power.base import Device, Meter
from phasewise.hardware.power.meters import tried


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How often to read, seconds; and the DCGM exporter to read instead of this machine's meters, none when empty."""

    every_s: float
    exporter: str = ""


class Ready(msgspec.Struct, frozen=True, kw_only=True):
    """The devices that are read, in the order that ``Reading.device`` counts, and why the other meters are not."""

    devices: tuple[Device, ...]
    why_not: dict[str, str]


def main(arguments: list[str]) -> None:
    """Sample until the one that started this closes our stdin, or dies."""
    settings = msgspec.json.decode(arguments[0], type=Settings)
    found = list(tried(settings.exporter))
    meters = [one.meter for one in found if one.meter is not None]
    ready = Ready(
        devices=tuple(device for meter in meters for device in meter.devices),
        why_not={one.name: one.why_not for one in found if one.meter is None},
    )
    sys.stdout.buffer.write(msgspec.json.encode(ready) + b"\n")
    sys.stdout.buffer.flush()
    if meters:
        _sample(meters, settings.every_s, int(arguments[1]))
    for meter in meters:
        meter.close()


def _sample(meters: list[Meter], every_s: float, file: int) -> None:
    firsts = [sum(len(meter.devices) for meter in meters[:i]) for i in range(len(meters))]
    encode = msgspec.json.Encoder().encode
    due = time.perf_counter()
    while True:
        lines = [
            encode(msgspec.structs.replace(reading, device=first + reading.device)) + b"\n"
            for meter, first in zip(meters, firsts, strict=True)
            for reading in meter.read()
        ]
        os.write(file, b"".join(lines))
        due = max(due + every_s, time.perf_counter())  # what was missed is not made up for
        if select.select([0], [], [], max(0.0, due - time.perf_counter()))[0]:
            return


if __name__ == "__main__":
    main(sys.argv[1:])
