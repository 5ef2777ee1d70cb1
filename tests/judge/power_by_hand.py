"""Series made by hand, whose energy is known by arithmetic. No product arithmetic in here."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from phasewise.hardware.power.base import Device
from phasewise.observe.telemetry.series import FIELDS, Series


def series(
    seconds: float = 10.0,
    every: float = 0.05,
    begin: float = 100.0,
    *,
    watts: Callable[[float], float] | None = None,
    joules: Callable[[float], float] | None = None,
    index: int = 0,
    wraps_at: float | None = None,
    highest: float | None = None,
    meter: str = "NVML",
    averages_s: float = 0.0,
    kind: str = "gpu",
    **columns: float | Callable[[float], float],
) -> Series:
    """One device read every ``every`` seconds; ``columns`` are numbers or functions of the time since ``begin``."""
    since = np.arange(round(seconds / every) + 1) * every
    found: dict[str, np.ndarray] = {name: np.full(len(since), np.nan) for name in FIELDS}
    functions = {"watts": watts, "joules": joules, **columns}
    for name, given in functions.items():
        if callable(given):
            found[name] = np.array([given(float(t)) for t in since])
        elif given is not None:
            found[name] = np.full(len(since), float(given))
    device = Device(
        index=index,
        name=f"GPU-{index}",
        kind=kind,  # type: ignore[arg-type]
        meter=meter,
        counter="planted" if joules else "",
        wraps_at=wraps_at,
        averages_s=averages_s,
        highest_sm_hz=highest,
    )
    return Series(device, begin + since, **found)


def steps(*levels: tuple[float, float]) -> Callable[[float], float]:
    """A function that holds each value from its time on: ``steps((0, 80), (3, 400))``."""

    def level(at: float) -> float:
        return [value for since, value in levels if at >= since - 1e-9][-1]

    return level
