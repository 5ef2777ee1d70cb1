"""What every meter gives: readings of its devices, each at a moment of the machine's clock."""

from __future__ import annotations

from typing import Literal, Protocol

import msgspec


class Unreadable(Exception):
    """A meter that cannot be read here; the text says what is missing and the cure, without a full stop."""


class Device(msgspec.Struct, frozen=True, kw_only=True):
    """One device of a meter.

    Attributes:
        index: as its driver counts.
        name: as its driver calls it.
        kind: what it is.
        uuid: of the driver; empty when it gives none.
        meter: what reads it: ``NVML``, ``AMD SMI``, ``RAPL``, ``DCGM``, ``powermetrics``, or the form of a file.
        watts_are: what its watts mean, one phrase (``instantaneous``, ``mean of the last second``).
        averages_s: length of time that each of its watts is a mean of, as far as is known; 0 for instantaneous ones.
        counter: what its energy counter counts, one phrase; empty when it has none.
        wraps_at: joules at which that counter starts again at zero; None for one that never does.
        highest_sm_hz: highest clock of its multiprocessors, Hz; None when unknown.
        notes: sentences a reader must know.
    """

    index: int
    name: str
    kind: Literal["gpu", "cpu", "chip"] = "gpu"
    uuid: str = ""
    meter: str = ""
    watts_are: str = ""
    averages_s: float = 0.0
    counter: str = ""
    wraps_at: float | None = None
    highest_sm_hz: float | None = None
    notes: tuple[str, ...] = ()


class Reading(msgspec.Struct, frozen=True, array_like=True):
    """One device at one moment; None is what it does not say.

    Attributes:
        at: ``time.perf_counter()`` when it was read (in files: see observe/telemetry).
        device: position in the meter's ``devices``.
        watts: drawn.
        joules: of the energy counter, from a zero of its own.
        sm_hz: clock of the multiprocessors.
        memory_hz: clock of the memory.
        celsius: of the device.
        limit_w: enforced power limit.
        utilisation: part of the time in which any kernel was resident, 0 to 1.
        capped: part of the time in which the power limit held the clock down, 0 to 1.
        hot: the same for heat.
        slowed: the same for the board (power brake, hardware slowdown).
    """

    at: float
    device: int
    watts: float | None = None
    joules: float | None = None
    sm_hz: float | None = None
    memory_hz: float | None = None
    celsius: float | None = None
    limit_w: float | None = None
    utilisation: float | None = None
    capped: float | None = None
    hot: float | None = None
    slowed: float | None = None


REASONS = {"capped": 0x4, "hot": 0x20 | 0x40, "slowed": 0x8 | 0x80}
"""Bits of NVML's clock event reasons (nvml.h, nvmlClocksEventReason*), which DCGM and nvidia-smi write too: the power
cap; thermal slowdown in software and hardware; hardware slowdown and power brake. Idle, application clocks and sync
boost throttle nothing."""


def held(bits: int) -> dict[str, float]:
    """Whether each kind of throttling was on, as fields of a Reading."""
    return {field: float(bool(bits & mask)) for field, mask in REASONS.items()}


MEAN_S = 1.0
"""NVML's power usage, and what nvidia-smi and DCGM show of it, is a mean of this long from Ampere on (GA100 left out);
a file does not say of which card it is, so it is taken for one."""


class Meter(Protocol):
    """A way to read power on this machine. Its module has ``NAME`` and ``open_meter()``, which raises Unreadable."""

    devices: tuple[Device, ...]

    def read(self) -> list[Reading]:
        """One reading of each device that answers, each stamped when it was taken."""

    def close(self) -> None:
        """Let go of the driver."""
