"""NVIDIA GPUs through NVML (package nvidia-ml-py)."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from phasewise.hardware.power.base import MEAN_S, Device, Reading, Unreadable, held

NAME = "NVML"

_INSTALL = "pip install 'phasewise[nvidia]'"


def open_meter() -> NvmlMeter:
    """Every GPU of this machine.

    Raises:
        Unreadable: no package, no driver, or no GPU.
    """
    try:
        import pynvml
    except ImportError:
        raise Unreadable(f"the package that reads NVIDIA GPUs is not installed: {_INSTALL}") from None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise Unreadable(
            f"no NVIDIA driver answers ({error}): load it, and start a container with --gpus all"
        ) from None
    try:
        handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
        if not handles:
            raise Unreadable("the NVIDIA driver shows no GPU: start the container with --gpus all")
        return NvmlMeter(pynvml, handles)
    except pynvml.NVMLError as error:
        pynvml.nvmlShutdown()
        raise Unreadable(f"the NVIDIA driver shows no GPU ({error}): see nvidia-smi") from None
    except Unreadable:
        pynvml.nvmlShutdown()
        raise


class NvmlMeter:
    """NVML's counters of every card; a MIG slice has none of its own, so those are of the whole card."""

    def __init__(self, nvml: Any, handles: list[Any]) -> None:
        self._nvml, self._handles = nvml, handles
        self._reasons: Callable[[Any], int] = (
            getattr(nvml, "nvmlDeviceGetCurrentClocksEventReasons", None)
            or nvml.nvmlDeviceGetCurrentClocksThrottleReasons
        )
        self._instant = [self._ask(self._power_now, handle) is not None for handle in handles]
        self.devices = tuple(self._device(i) for i in range(len(handles)))

    def read(self) -> list[Reading]:
        """One reading of each card; what a card does not answer is None."""
        return [self._read(i) for i in range(len(self._handles))]

    def close(self) -> None:
        """Let go of the driver."""
        with suppress(self._nvml.NVMLError):
            self._nvml.nvmlShutdown()

    def _read(self, index: int) -> Reading:
        nvml, handle, ask = self._nvml, self._handles[index], self._ask
        # The counter first, and the clock right before it: energy is what everything else is held against.
        at = time.perf_counter()
        millijoules = ask(nvml.nvmlDeviceGetTotalEnergyConsumption, handle)
        milliwatts = ask(self._power_now if self._instant[index] else nvml.nvmlDeviceGetPowerUsage, handle)
        limit = ask(nvml.nvmlDeviceGetEnforcedPowerLimit, handle)
        busy = ask(nvml.nvmlDeviceGetUtilizationRates, handle)
        reasons = ask(self._reasons, handle)
        return Reading(
            at=at,
            device=index,
            watts=_scaled(milliwatts, 1e-3),
            joules=_scaled(millijoules, 1e-3),
            sm_hz=_scaled(ask(nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_SM), 1e6),
            memory_hz=_scaled(ask(nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_MEM), 1e6),
            celsius=_scaled(ask(nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU), 1.0),
            limit_w=_scaled(limit, 1e-3),
            utilisation=None if busy is None else busy.gpu / 100,
            **({} if reasons is None else held(reasons)),
        )

    def _device(self, index: int) -> Device:
        nvml, handle, ask = self._nvml, self._handles[index], self._ask
        counter = ask(nvml.nvmlDeviceGetTotalEnergyConsumption, handle) is not None
        mig = ask(nvml.nvmlDeviceGetMigMode, handle)
        sliced = bool(mig) and mig[0] == nvml.NVML_DEVICE_MIG_ENABLE
        return Device(
            index=index,
            name=_text(ask(nvml.nvmlDeviceGetName, handle)) or "unknown NVIDIA GPU",
            uuid=_text(ask(nvml.nvmlDeviceGetUUID, handle)),
            meter=NAME,
            watts_are="instantaneous" if self._instant[index] else "mean of the last second, or instantaneous (driver)",
            averages_s=0.0 if self._instant[index] else MEAN_S,
            counter="nvmlDeviceGetTotalEnergyConsumption" if counter else "",
            highest_sm_hz=_scaled(ask(nvml.nvmlDeviceGetMaxClockInfo, handle, nvml.NVML_CLOCK_SM), 1e6),
            notes=("MIG is on: its figures are of the whole card, with what its other slices do.",) if sliced else (),
        )

    def _power_now(self, handle: Any) -> int | None:
        """Milliwatts at this moment: nvmlDeviceGetPowerUsage averages over a second from Ampere on (GA100 left out)."""
        value = self._nvml.nvmlDeviceGetFieldValues(handle, [self._nvml.NVML_FI_DEV_POWER_INSTANT])[0]
        return int(value.value.uiVal) if value.nvmlReturn == self._nvml.NVML_SUCCESS else None

    def _ask(self, question: Callable[..., Any], *about: Any) -> Any:
        """NVML's answer, or None when this card, driver or package has none."""
        try:
            return question(*about)
        except (self._nvml.NVMLError, AttributeError):
            return None


def _scaled(value: float | None, by: float) -> float | None:
    return None if value is None else value * by


def _text(name: Any) -> str:
    text = name.decode(errors="replace") if isinstance(name, bytes) else str(name or "")
    return "".join(c for c in text if c.isprintable())
