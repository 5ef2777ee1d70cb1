"""AMD GPUs through AMD SMI (package amdsmi, which ROCm brings).

Names and units are those of amdsmi_interface.py, read at ROCm/amdsmi 2024-10 and in the wheel amdsmi 7.0.2:
microwatts of the cap, microjoules of the counter (its value times its resolution), degrees of ``get_temp_metric``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from phasewise.hardware.power.base import Device, Reading, Unreadable

NAME = "AMD SMI"


def open_meter() -> AmdMeter:
    """Every AMD GPU of this machine.

    Raises:
        Unreadable: no package, no driver, or no GPU.
    """
    try:
        import amdsmi
    except ImportError:
        raise Unreadable("the package that reads AMD GPUs is not installed: pip install amdsmi") from None
    except Exception as error:  # it loads its library as it is imported, and says in its own ways that it cannot
        raise Unreadable(f"the package amdsmi cannot load its library ({_line(error)}): install ROCm") from None
    try:
        amdsmi.amdsmi_init()
        handles = list(amdsmi.amdsmi_get_processor_handles())
    except amdsmi.AmdSmiException as error:
        raise Unreadable(f"no AMD driver answers ({_line(error)}): see amd-smi list") from None
    if not handles:
        raise Unreadable("the AMD driver shows no GPU: start the container with --device=/dev/kfd --device=/dev/dri")
    return AmdMeter(amdsmi, handles)


class AmdMeter:
    """AMD SMI's readings of every GPU. Its violation counters are left out: asking for them takes 0.1 s each."""

    def __init__(self, smi: Any, handles: list[Any]) -> None:
        self._smi, self._handles = smi, handles
        self.devices = tuple(self._device(i) for i in range(len(handles)))

    def read(self) -> list[Reading]:
        """One reading of each GPU; what it does not answer is None."""
        return [self._read(i) for i in range(len(self._handles))]

    def close(self) -> None:
        """Let go of the driver."""
        with suppress(self._smi.AmdSmiException):
            self._smi.amdsmi_shut_down()

    def _read(self, index: int) -> Reading:
        smi, handle, ask = self._smi, self._handles[index], self._ask
        at = time.perf_counter()
        joules = self._joules(handle)
        power = ask(smi.amdsmi_get_power_info, handle) or {}
        cap = _number((ask(smi.amdsmi_get_power_cap_info, handle) or {}).get("power_cap"))
        busy = _number((ask(smi.amdsmi_get_gpu_activity, handle) or {}).get("gfx_activity"))
        kinds = smi.AmdSmiClkType
        return Reading(
            at=at,
            device=index,
            watts=_first(power, _WATTS),
            joules=joules,
            sm_hz=_megahertz(ask(smi.amdsmi_get_clock_info, handle, kinds.GFX)),
            memory_hz=_megahertz(ask(smi.amdsmi_get_clock_info, handle, kinds.MEM)),
            celsius=_number(
                ask(
                    smi.amdsmi_get_temp_metric,
                    handle,
                    smi.AmdSmiTemperatureType.HOTSPOT,
                    smi.AmdSmiTemperatureMetric.CURRENT,
                )
            ),
            limit_w=cap * 1e-6 if cap else None,
            utilisation=None if busy is None else busy / 100,
        )

    def _device(self, index: int) -> Device:
        smi, handle, ask = self._smi, self._handles[index], self._ask
        power = ask(smi.amdsmi_get_power_info, handle) or {}
        clock = ask(smi.amdsmi_get_clock_info, handle, smi.AmdSmiClkType.GFX) or {}
        highest = _number(clock.get("max_clk"))
        return Device(
            index=index,
            name=str((ask(smi.amdsmi_get_gpu_asic_info, handle) or {}).get("market_name") or "unknown AMD GPU"),
            uuid=str(ask(smi.amdsmi_get_gpu_device_uuid, handle) or ""),
            meter=NAME,
            watts_are="instantaneous" if _number(power.get("current_socket_power")) else "mean of the driver's window",
            counter="" if self._joules(handle) is None else "amdsmi_get_energy_count",
            highest_sm_hz=highest * 1e6 if highest else None,
        )

    def _joules(self, handle: Any) -> float | None:
        """Energy so far; a secondary die, which has no counter, answers 0."""
        counter = self._ask(self._smi.amdsmi_get_energy_count, handle) or {}
        count = _number(counter.get("energy_accumulator", counter.get("power")))
        resolution = _number(counter.get("counter_resolution"))
        return count * resolution * 1e-6 if count and resolution else None

    def _ask(self, question: Callable[..., Any], *about: Any) -> Any:
        """The driver's answer, or None when this GPU has none."""
        try:
            return question(*about)
        except self._smi.AmdSmiException:
            return None


_WATTS = ("current_socket_power", "socket_power", "average_socket_power")
"""Best first; a GPU answers one of them, and "N/A", 0 or 65535 for the others."""

_NO_NUMBER = (0xFFFF, 0xFFFFFFFF)


def _first(answer: dict[str, Any], names: tuple[str, ...]) -> float | None:
    return next((value for name in names if (value := _number(answer.get(name)))), None)


def _megahertz(clock: dict[str, Any] | None) -> float | None:
    value = _number((clock or {}).get("clk"))
    return None if value is None else value * 1e6


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or value in _NO_NUMBER:
        return None
    return float(value)


def _line(error: object) -> str:
    return " ".join(str(error).split())[:120]
