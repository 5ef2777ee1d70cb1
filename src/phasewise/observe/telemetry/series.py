"""One device over time, as columns: what a meter's readings and a file's rows become."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from phasewise.hardware.power.base import Device, Reading
from phasewise.observe.telemetry.rows import Rows

Floats = NDArray[np.float64]

FIELDS: tuple[str, ...] = Reading.__struct_fields__[2:]
"""Columns of a series: what a reading says, in SI."""


POSSIBLE: dict[str, tuple[float, float]] = {
    "watts": (0.0, 2e4),
    "joules": (0.0, 1e13),
    "sm_hz": (0.0, 1e10),
    "memory_hz": (0.0, 1e11),
    "celsius": (-100.0, 200.0),
    "limit_w": (0.0, 2e4),
    "utilisation": (0.0, 1.05),
    "capped": (0.0, 1.05),
    "hot": (0.0, 1.05),
    "slowed": (0.0, 1.05),
}
"""What one device can read, in SI, with a wide margin (a module of 2026 draws under 3 kW); drivers write 2**32 - 1 and
negative numbers where they have none."""


class Series(NamedTuple):
    """One device: times in rising order, and a column per field of a Reading, NaN where it does not say."""

    device: Device
    time: Floats
    watts: Floats
    joules: Floats
    sm_hz: Floats
    memory_hz: Floats
    celsius: Floats
    limit_w: Floats
    utilisation: Floats
    capped: Floats
    hot: Floats
    slowed: Floats

    def at(self, time: Floats) -> Series:
        """The same at other times of the same rows, sorted again; of rows at one time the last counts."""
        order = np.argsort(time, kind="stable")
        last = np.append(np.diff(time[order]) > 0, True)
        kept = order[last]
        return self._replace(time=time[kept], **{name: getattr(self, name)[kept] for name in FIELDS})

    def between(self, begin: float, end: float) -> Series:
        """Its rows from ``begin`` to ``end``."""
        kept = slice(*np.searchsorted(self.time, [begin, end], side="left"))
        return self._replace(time=self.time[kept], **{name: getattr(self, name)[kept] for name in FIELDS})

    def says(self, name: str) -> bool:
        """Whether it holds any number in that column."""
        return bool(np.isfinite(getattr(self, name)).any())

    @property
    def every_s(self) -> float:
        """Median time between two rows; infinite with fewer than two."""
        return float(np.median(np.diff(self.time))) if len(self.time) > 1 else float("inf")


def of_readings(devices: Sequence[Device], readings: Sequence[Reading]) -> tuple[Series, ...]:
    """The readings of a meter, a series per device that answered; times as the readings have them."""
    found = []
    for position, device in enumerate(devices):
        own = [reading for reading in readings if reading.device == position]
        if own:
            columns, notes = _columns({name: [getattr(one, name) for one in own] for name in FIELDS})
            time = np.array([one.at for one in own])
            about = msgspec.structs.replace(device, notes=(*device.notes, *notes))
            found.append(Series(about, time, **columns).at(time))
    return tuple(found)


def of_rows(read: Rows, form: str) -> tuple[Series, ...]:
    """A file's rows, a series per device, in the order of the file; times by the file's clock."""
    found = []
    for index in sorted({row.device for row in read.rows}):
        own = [row for row in read.rows if row.device == index]
        columns, notes = _columns({name: [row.values.get(name) for row in own] for name in FIELDS})
        device = Device(
            index=index,
            name=next((row.name for row in own if row.name), "") or f"device {index}",
            kind="chip" if form == "powermetrics" else "gpu",
            uuid=next((row.uuid for row in own if row.uuid), ""),
            meter=form,
            watts_are=read.watts_are,
            averages_s=read.averages_s,
            counter=read.counter if np.isfinite(columns["joules"]).any() else "",
            notes=(*read.notes, *notes),
        )
        found.append(Series(device, np.array([row.at for row in own]), **columns))
    return tuple(found)


def _columns(given: dict[str, list[float | None]]) -> tuple[dict[str, Floats], tuple[str, ...]]:
    """The columns without what no device can read, and a sentence on what that was."""
    columns, notes = {}, list[str]()
    for name, values in given.items():
        column, (least, most) = _column(values), POSSIBLE[name]
        impossible = np.isfinite(column) & ((column < least) | (column > most))
        columns[name] = np.where(impossible, np.nan, column)
        if impossible.any():
            notes.append(f"{int(impossible.sum()):,} readings of {name} that no device has are left out.")
    return columns, tuple(notes)


def _column(values: Sequence[float | None]) -> Floats:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)
