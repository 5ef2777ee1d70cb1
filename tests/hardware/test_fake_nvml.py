"""The fake NVML has the real one's names, signatures, constants and errors, and replays what is planted."""

from __future__ import annotations

import inspect
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import nvml_fake
from nvml_fake import fake

pynvml = pytest.importorskip("pynvml")

_OURS = {"Any", "Callable", "ClassVar", "Path", "annotations", "change", "energy_now", "read", "row_now"}
_NAMES = sorted(
    name
    for name in vars(fake)
    if not name.startswith("_") and name not in _OURS and not inspect.ismodule(getattr(fake, name))
)
_FUNCTIONS = [name for name in _NAMES if inspect.isfunction(getattr(fake, name))]
_CONSTANTS = [name for name in _NAMES if isinstance(getattr(fake, name), int)]
_ERRORS = [name for name in _NAMES if name.startswith("NVMLError_")]
_STRUCTURES = ["c_nvmlMemory_t", "c_nvmlUtilization_t", "c_nvmlFieldValue_t"]


def test_every_name_is_looked_at() -> None:
    assert {*_FUNCTIONS, *_CONSTANTS, *_ERRORS, *_STRUCTURES, "NVMLError", "c_nvmlDevice"} == set(_NAMES)


@pytest.mark.parametrize("name", _FUNCTIONS)
def test_functions_are_the_real_ones_by_name_and_signature(name: str) -> None:
    real = inspect.signature(getattr(pynvml, name)).parameters.values()
    ours = inspect.signature(getattr(fake, name)).parameters.values()
    assert [(p.name, p.kind, p.default) for p in ours] == [(p.name, p.kind, p.default) for p in real]


@pytest.mark.parametrize("name", _CONSTANTS)
def test_constants_have_the_real_values(name: str) -> None:
    assert getattr(fake, name) == getattr(pynvml, name)


@pytest.mark.parametrize("name", _ERRORS)
def test_errors_are_the_real_classes_with_the_real_words(name: str) -> None:
    real, ours = getattr(pynvml, name), getattr(fake, name)
    assert ours.__mro__[1] is fake.NVMLError
    assert ours().value == real().value
    assert type(fake.NVMLError(real().value)) is ours
    if real().value in pynvml.NVMLError._errcode_to_string:  # for the others the real one asks the driver
        assert str(ours()) == str(real())


@pytest.mark.parametrize("name", _STRUCTURES)
def test_structures_have_the_real_fields(name: str) -> None:
    assert [field[0] for field in getattr(fake, name)._fields_] == [
        field[0] for field in getattr(pynvml, name)._fields_
    ]


def test_the_value_of_a_field_has_the_real_members() -> None:
    real = {field[0] for field in pynvml.c_nvmlValue_t._fields_}
    assert {field[0] for field in fake._Value._fields_} <= real


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """``planted(*gpus, **faults)`` puts a state in place and gives a handle of its first GPU."""
    path = tmp_path / "nvml.json"
    monkeypatch.setenv("FAKE_NVML", str(path))

    def put(*gpus: dict[str, Any], **faults: dict[str, Any]) -> Any:
        nvml_fake.write(path, nvml_fake.state(*gpus, **faults))
        monkeypatch.setattr(fake, "_calls", {})
        monkeypatch.setattr(fake, "_initialised", 0)
        fake.nvmlInit()
        return fake.nvmlDeviceGetHandleByIndex(0)

    return put


def test_a_limit_that_one_process_sets_is_read_by_another(planted: Any, tmp_path: Path) -> None:
    handle = planted(nvml_fake.gpu())
    script = (
        "import pynvml; pynvml.nvmlInit(); h = pynvml.nvmlDeviceGetHandleByIndex(0);"
        "pynvml.nvmlDeviceSetPowerManagementLimit(h, 350000)"
    )
    env = nvml_fake.environment(tmp_path / "nvml.json")
    subprocess.run([sys.executable, "-c", script], env=env, check=True)
    assert fake.nvmlDeviceGetPowerManagementLimit(handle) == 350_000
    assert [entry[2:] for entry in nvml_fake.read(tmp_path / "nvml.json")["sets"]] == [[0, 350_000]]


def test_the_driver_may_clamp_or_ignore(planted: Any) -> None:
    handle = planted(nvml_fake.gpu(driver="clamps"))
    fake.nvmlDeviceSetPowerManagementLimit(handle, 377_000)
    assert fake.nvmlDeviceGetPowerManagementLimit(handle) == 350_000
    handle = planted(nvml_fake.gpu(driver="ignores"))
    fake.nvmlDeviceSetPowerManagementLimit(handle, 377_000)
    assert fake.nvmlDeviceGetPowerManagementLimit(handle) == 700_000


@pytest.mark.parametrize("limit", [199_999, 700_001])
def test_a_limit_outside_the_range_is_refused(planted: Any, limit: int) -> None:
    handle = planted(nvml_fake.gpu())
    with pytest.raises(fake.NVMLError_InvalidArgument):
        fake.nvmlDeviceSetPowerManagementLimit(handle, limit)


def test_faults(planted: Any) -> None:
    handle = planted(nvml_fake.gpu(), nvmlDeviceSetPowerManagementLimit={"error": fake.NVML_ERROR_NO_PERMISSION})
    with pytest.raises(fake.NVMLError_NoPermission):
        fake.nvmlDeviceSetPowerManagementLimit(handle, 300_000)
    handle = planted(nvml_fake.gpu(), nvmlDeviceGetPowerUsage={"error": 3, "skip": 1, "times": 1})
    assert fake.nvmlDeviceGetPowerUsage(handle) == 75_000
    with pytest.raises(fake.NVMLError_NotSupported):
        fake.nvmlDeviceGetPowerUsage(handle)
    assert fake.nvmlDeviceGetPowerUsage(handle) == 75_000
    handle = planted(nvml_fake.gpu(lost=True))
    with pytest.raises(fake.NVMLError_GpuIsLost):
        fake.nvmlDeviceGetPowerUsage(handle)


def test_nothing_works_before_init(planted: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    handle = planted(nvml_fake.gpu())
    fake.nvmlShutdown()
    with pytest.raises(fake.NVMLError_Uninitialized):
        fake.nvmlDeviceGetPowerUsage(handle)
    monkeypatch.delenv("FAKE_NVML")
    with pytest.raises(fake.NVMLError_LibraryNotFound):
        fake.nvmlInit()


def test_a_recorded_series_is_replayed_and_its_energy_counted(planted: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        {"t": 10.0, "power_w": 300.0, "sm_mhz": 1980, "mem_mhz": 2619, "temperature_c": 50, "gpu_pct": 100},
        {"t": 20.0, "power_w": 500.0, "sm_mhz": 1605, "reasons": 4},
    ]
    handle = planted(nvml_fake.gpu(rows=rows, energy_mj=5000, wraps_at=6_000_000))
    epoch = nvml_fake.read(fake._path())["epoch"]

    def at(seconds: float) -> None:
        monkeypatch.setattr(time, "monotonic", lambda: epoch + seconds)

    at(5.0)
    assert fake.nvmlDeviceGetPowerUsage(handle) == 75_000
    at(12.0)
    assert fake.nvmlDeviceGetPowerUsage(handle) == 300_000
    assert fake.nvmlDeviceGetClockInfo(handle, fake.NVML_CLOCK_SM) == 1980
    assert fake.nvmlDeviceGetClockInfo(handle, fake.NVML_CLOCK_MEM) == 2619
    assert fake.nvmlDeviceGetTemperature(handle, fake.NVML_TEMPERATURE_GPU) == 50
    assert fake.nvmlDeviceGetUtilizationRates(handle).gpu == 100
    assert fake.nvmlDeviceGetTotalEnergyConsumption(handle) == 5000 + 600_000
    at(22.0)
    assert fake.nvmlDeviceGetCurrentClocksEventReasons(handle) == fake.nvmlClocksEventReasonSwPowerCap
    assert fake.nvmlDeviceGetTotalEnergyConsumption(handle) == 5000 + 3_000_000 + 1_000_000
    values = fake.nvmlDeviceGetFieldValues(handle, [fake.NVML_FI_DEV_POWER_INSTANT, 9999])
    assert values[0].value.uiVal == 500_000
    assert values[1].nvmlReturn == fake.NVML_ERROR_NOT_SUPPORTED
    at(30.0)  # 10 s of 500 W: past the end of the counter
    assert fake.nvmlDeviceGetTotalEnergyConsumption(handle) == 5000 + 3_000_000 + 5_000_000 - 6_000_000


def test_a_load_under_its_limit_runs_at_full_clock_and_over_it_is_throttled(planted: Any, tmp_path: Path) -> None:
    path, where = tmp_path / "nvml.json", tmp_path / "load"
    handle = planted(nvml_fake.gpu(load=str(where), idle_w=100.0, clock_power=3.0))
    load = nvml_fake.Load(where, path)
    load.run(time.monotonic(), 1e6, 600.0)
    assert fake.nvmlDeviceGetPowerUsage(handle) == 600_000
    assert fake.nvmlDeviceGetClockInfo(handle, fake.NVML_CLOCK_SM) == 1980
    fake.nvmlDeviceSetPowerManagementLimit(handle, 350_000)
    assert fake.nvmlDeviceGetPowerUsage(handle) == 350_000
    # half of the dynamic power at the cube root of a half of the clock
    assert fake.nvmlDeviceGetClockInfo(handle, fake.NVML_CLOCK_SM) == round(1980 * 0.5 ** (1 / 3))
    assert load.clock_share(600.0) == pytest.approx(0.5 ** (1 / 3))
    assert fake.nvmlDeviceGetCurrentClocksEventReasons(handle) == fake.nvmlClocksEventReasonSwPowerCap
