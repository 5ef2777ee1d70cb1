"""A pynvml without a GPU: on PYTHONPATH before nvidia-ml-py it takes its place, in child processes too.

All processes that name one state file in ``FAKE_NVML`` see the same GPUs: a limit that one sets is the limit that
another reads. Names, signatures, constants and errors are those of nvidia-ml-py (tests/hardware/test_fake_nvml.py
holds them to it), and only functions that phasewise calls are here.
What a state holds is said in nvml_state.py.

A test imports this file under another name: tests/nvml_fake.py.
"""

# ruff: noqa: N802, N803, N816 - the names are NVML's

from __future__ import annotations

import ctypes
import functools
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from nvml_state import change, energy_now, read, row_now

# --- constants, as nvidia-ml-py has them -------------------------------------------------------------------------

NVML_SUCCESS = 0
NVML_ERROR_UNINITIALIZED = 1
NVML_ERROR_INVALID_ARGUMENT = 2
NVML_ERROR_NOT_SUPPORTED = 3
NVML_ERROR_NO_PERMISSION = 4
NVML_ERROR_NOT_FOUND = 6
NVML_ERROR_DRIVER_NOT_LOADED = 9
NVML_ERROR_TIMEOUT = 10
NVML_ERROR_LIBRARY_NOT_FOUND = 12
NVML_ERROR_FUNCTION_NOT_FOUND = 13
NVML_ERROR_GPU_IS_LOST = 15
NVML_ERROR_RESET_REQUIRED = 16
NVML_ERROR_IN_USE = 19
NVML_ERROR_UNKNOWN = 999

NVML_CLOCK_GRAPHICS = 0
NVML_CLOCK_SM = 1
NVML_CLOCK_MEM = 2
NVML_TEMPERATURE_GPU = 0
NVML_DEVICE_MIG_DISABLE = 0
NVML_DEVICE_MIG_ENABLE = 1
NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION = 83
NVML_FI_DEV_POWER_AVERAGE = 185
NVML_FI_DEV_POWER_INSTANT = 186
NVML_VALUE_TYPE_UNSIGNED_INT = 1
NVML_VALUE_TYPE_UNSIGNED_LONG_LONG = 3

nvmlClocksEventReasonNone = 0x0
nvmlClocksEventReasonGpuIdle = 0x1
nvmlClocksEventReasonApplicationsClocksSetting = 0x2
nvmlClocksEventReasonSwPowerCap = 0x4
nvmlClocksEventReasonHwSlowdown = 0x8
nvmlClocksEventReasonSyncBoost = 0x10
nvmlClocksEventReasonSwThermalSlowdown = 0x20
nvmlClocksEventReasonHwThermalSlowdown = 0x40
nvmlClocksEventReasonHwPowerBrakeSlowdown = 0x80
nvmlClocksEventReasonDisplayClockSetting = 0x100
nvmlClocksThrottleReasonNone = 0x0
nvmlClocksThrottleReasonGpuIdle = 0x1
nvmlClocksThrottleReasonApplicationsClocksSetting = 0x2
nvmlClocksThrottleReasonSwPowerCap = 0x4
nvmlClocksThrottleReasonHwSlowdown = 0x8
nvmlClocksThrottleReasonSyncBoost = 0x10
nvmlClocksThrottleReasonSwThermalSlowdown = 0x20
nvmlClocksThrottleReasonHwThermalSlowdown = 0x40
nvmlClocksThrottleReasonHwPowerBrakeSlowdown = 0x80
nvmlClocksThrottleReasonDisplayClockSetting = 0x100

_WORDS = {
    NVML_ERROR_UNINITIALIZED: "Uninitialized",
    NVML_ERROR_INVALID_ARGUMENT: "Invalid Argument",
    NVML_ERROR_NOT_SUPPORTED: "Not Supported",
    NVML_ERROR_NO_PERMISSION: "Insufficient Permissions",
    NVML_ERROR_NOT_FOUND: "Not Found",
    NVML_ERROR_DRIVER_NOT_LOADED: "Driver Not Loaded",
    NVML_ERROR_TIMEOUT: "Timeout",
    NVML_ERROR_LIBRARY_NOT_FOUND: "NVML Shared Library Not Found",
    NVML_ERROR_FUNCTION_NOT_FOUND: "Function Not Found",
    NVML_ERROR_GPU_IS_LOST: "GPU is lost",
    NVML_ERROR_RESET_REQUIRED: "GPU requires restart",
    NVML_ERROR_UNKNOWN: "Unknown Error",
}


class NVMLError(Exception):
    """``NVMLError(code)`` is an instance of that code's own class, and so is ``raise NVMLError_NotSupported``."""

    _classes: ClassVar[dict[int, type[NVMLError]]] = {}
    value: int

    def __new__(cls, value: int) -> NVMLError:
        if cls is NVMLError:
            cls = NVMLError._classes.get(value, cls)
        error = Exception.__new__(cls)
        error.value = value
        return error

    def __str__(self) -> str:
        return _WORDS.get(self.value, f"NVML Error with code {self.value}")

    def __eq__(self, other: object) -> bool:
        return self.value == getattr(other, "value", None)

    __hash__ = None  # type: ignore[assignment]  # as the real one, which defines only __eq__


def _class_of(name: str, code: int) -> type[NVMLError]:
    def new(cls: type[NVMLError], *_: object) -> NVMLError:
        return NVMLError.__new__(cls, code)

    words = name.removeprefix("NVML_ERROR_").split("_")
    made = type("NVMLError_" + "".join(word.capitalize() for word in words), (NVMLError,), {"__new__": new})
    made.__module__ = __name__
    NVMLError._classes[code] = made
    return made


for _name, _code in [(n, c) for n, c in list(globals().items()) if n.startswith("NVML_ERROR_")]:
    _made = _class_of(_name, _code)
    globals()[_made.__name__] = _made


# --- reading it ---------------------------------------------------------------------------------------------------

_initialised = 0
_calls: dict[str, int] = {}


def _path() -> Path:
    return Path(os.environ["FAKE_NVML"])


def _call(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` with the faults that the state plants for it."""

    @functools.wraps(function)
    def called(*arguments: Any, **named: Any) -> Any:
        if not _initialised and function.__name__ != "nvmlInit":
            raise NVMLError(NVML_ERROR_UNINITIALIZED)
        fault = _fault(function.__name__, arguments[0] if arguments else None)
        time.sleep(fault.get("sleep_s", 0))
        _hang(fault, "before")
        if "error" in fault:
            raise NVMLError(fault["error"])
        answer = function(*arguments, **named)
        _hang(fault, "after")
        return answer

    return called


def _fault(name: str, device: Any) -> dict[str, Any]:
    """What is planted for this call."""
    if not os.environ.get("FAKE_NVML"):
        return {"error": NVML_ERROR_LIBRARY_NOT_FOUND}
    fault: dict[str, Any] = read(_path())["faults"].get(name, {})
    _calls[name] = _calls.get(name, 0) + 1
    if isinstance(device, c_nvmlDevice):
        if _about(device)["lost"]:
            raise NVMLError(NVML_ERROR_GPU_IS_LOST)
        if fault.get("gpu", device.index) != device.index:
            return {}
    nth = _calls[name] - fault.get("skip", 0)
    return fault if 1 <= nth <= fault.get("times", sys.maxsize) else {}


def _hang(fault: dict[str, Any], when: str) -> None:
    while fault.get("hang") == when:
        time.sleep(3600)


class c_nvmlDevice:  # noqa: N801 - its role in the real one: an opaque handle
    def __init__(self, index: int) -> None:
        self.index = index


def _about(device: c_nvmlDevice) -> dict[str, Any]:
    found: dict[str, Any] = read(_path())["gpus"][device.index]
    return found


def _now(device: c_nvmlDevice) -> dict[str, float]:
    return row_now(_about(device), _epoch())


def _energy(device: c_nvmlDevice) -> int:
    return energy_now(_about(device), _epoch())


def _epoch() -> float:
    return float(read(_path())["epoch"])


# --- the functions ------------------------------------------------------------------------------------------------


@_call
def nvmlInit() -> None:
    global _initialised
    _initialised += 1


def nvmlShutdown() -> None:
    global _initialised
    if not _initialised:
        raise NVMLError(NVML_ERROR_UNINITIALIZED)
    _initialised -= 1


@_call
def nvmlSystemGetDriverVersion() -> str:
    return str(read(_path())["driver"])


@_call
def nvmlDeviceGetCount() -> int:
    return len(read(_path())["gpus"])


@_call
def nvmlDeviceGetHandleByIndex(index: int) -> c_nvmlDevice:
    if not 0 <= index < len(read(_path())["gpus"]):
        raise NVMLError(NVML_ERROR_INVALID_ARGUMENT)
    return c_nvmlDevice(index)


@_call
def nvmlDeviceGetHandleByUUID(uuid: str | bytes) -> c_nvmlDevice:
    name = uuid.decode() if isinstance(uuid, bytes) else uuid
    for index, about in enumerate(read(_path())["gpus"]):
        if about["uuid"] == name:
            return c_nvmlDevice(index)
    raise NVMLError(NVML_ERROR_NOT_FOUND)


@_call
def nvmlDeviceGetIndex(handle: c_nvmlDevice) -> int:
    return handle.index


@_call
def nvmlDeviceGetName(handle: c_nvmlDevice) -> str:
    return str(_about(handle)["name"])


@_call
def nvmlDeviceGetUUID(handle: c_nvmlDevice) -> str:
    return str(_about(handle)["uuid"])


class c_nvmlMemory_t(ctypes.Structure):  # noqa: N801 - the real name
    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


@_call
def nvmlDeviceGetMemoryInfo(handle: c_nvmlDevice, version: int | None = None) -> c_nvmlMemory_t:
    total = _about(handle)["memory"]
    return c_nvmlMemory_t(total, total, 0)


@_call
def nvmlDeviceGetMigMode(device: c_nvmlDevice) -> list[int]:
    mode = _about(device)["mig"]
    if mode is None:
        raise NVMLError(NVML_ERROR_NOT_SUPPORTED)
    return list(mode)


@_call
def nvmlDeviceGetMaxMigDeviceCount(device: c_nvmlDevice) -> int:
    return 7


@_call
def nvmlDeviceGetMigDeviceHandleByIndex(device: c_nvmlDevice, index: int) -> c_nvmlDevice:
    raise NVMLError(NVML_ERROR_NOT_FOUND)


@_call
def nvmlDeviceGetPowerUsage(handle: c_nvmlDevice) -> int:
    return round(1000 * _now(handle)["power_w"])


@_call
def nvmlDeviceGetTotalEnergyConsumption(handle: c_nvmlDevice) -> int:
    return _energy(handle)


@_call
def nvmlDeviceGetClockInfo(handle: c_nvmlDevice, type: int) -> int:  # noqa: A002 - the real name
    return round(_now(handle)["mem_mhz" if type == NVML_CLOCK_MEM else "sm_mhz"])


@_call
def nvmlDeviceGetMaxClockInfo(handle: c_nvmlDevice, type: int) -> int:  # noqa: A002 - the real name
    return int(_about(handle)["max_mem_mhz" if type == NVML_CLOCK_MEM else "max_sm_mhz"])


@_call
def nvmlDeviceGetTemperature(handle: c_nvmlDevice, sensor: int) -> int:
    return round(_now(handle)["temperature_c"])


class c_nvmlUtilization_t(ctypes.Structure):  # noqa: N801 - the real name
    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


@_call
def nvmlDeviceGetUtilizationRates(handle: c_nvmlDevice) -> c_nvmlUtilization_t:
    row = _now(handle)
    return c_nvmlUtilization_t(round(row["gpu_pct"]), round(row["mem_pct"]))


@_call
def nvmlDeviceGetCurrentClocksEventReasons(handle: c_nvmlDevice) -> int:
    return int(_now(handle)["reasons"])


@_call
def nvmlDeviceGetCurrentClocksThrottleReasons(handle: c_nvmlDevice) -> int:
    return int(_now(handle)["reasons"])


class _Value(ctypes.Union):
    _fields_ = (("uiVal", ctypes.c_uint), ("ullVal", ctypes.c_ulonglong))


class c_nvmlFieldValue_t(ctypes.Structure):  # noqa: N801 - the real name
    _fields_ = (
        ("fieldId", ctypes.c_uint32),
        ("scopeId", ctypes.c_uint32),
        ("timestamp", ctypes.c_int64),
        ("latencyUsec", ctypes.c_int64),
        ("valueType", ctypes.c_uint32),
        ("nvmlReturn", ctypes.c_uint32),
        ("value", _Value),
    )


@_call
def nvmlDeviceGetFieldValues(handle: c_nvmlDevice, fieldIds: list[int]) -> Any:
    values = (c_nvmlFieldValue_t * len(fieldIds))()
    for value, field in zip(values, fieldIds, strict=True):
        value.fieldId, value.timestamp = field, int(1e6 * time.time())
        if field in (NVML_FI_DEV_POWER_INSTANT, NVML_FI_DEV_POWER_AVERAGE):
            value.valueType, value.value.uiVal = NVML_VALUE_TYPE_UNSIGNED_INT, round(1000 * _now(handle)["power_w"])
        elif field == NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION:
            value.valueType, value.value.ullVal = NVML_VALUE_TYPE_UNSIGNED_LONG_LONG, _energy(handle)
        else:
            value.nvmlReturn = NVML_ERROR_NOT_SUPPORTED
    return values


@_call
def nvmlDeviceGetPowerManagementLimit(handle: c_nvmlDevice) -> int:
    return int(_about(handle)["limit"])


@_call
def nvmlDeviceGetPowerManagementDefaultLimit(handle: c_nvmlDevice) -> int:
    return int(_about(handle)["default"])


@_call
def nvmlDeviceGetPowerManagementLimitConstraints(handle: c_nvmlDevice) -> list[int]:
    return list(_about(handle)["constraints"])


@_call
def nvmlDeviceGetEnforcedPowerLimit(handle: c_nvmlDevice) -> int:
    about = _about(handle)
    return int(about["limit"] if about["enforced"] is None else about["enforced"])


@_call
def nvmlDeviceSetPowerManagementLimit(handle: c_nvmlDevice, limit: int) -> None:
    def put(content: dict[str, Any]) -> None:
        about = content["gpus"][handle.index]
        least, most = about["constraints"]
        if not least <= limit <= most:
            raise NVMLError(NVML_ERROR_INVALID_ARGUMENT)
        if about["driver"] != "ignores":
            about["limit"] = limit - limit % 50_000 if about["driver"] == "clamps" else limit
        content["sets"].append([time.monotonic(), os.getpid(), handle.index, limit])

    change(_path(), put)
