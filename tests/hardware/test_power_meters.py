"""Meters: what they read, and the sentence when they cannot."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import pytest

import nvml_fake
from phasewise.hardware.power import amd, apple, dcgm, meters, nvml, rapl
from phasewise.hardware.power.base import Unreadable, held

ROW = {"power_w": 431.0, "sm_mhz": 1395, "mem_mhz": 2619, "temperature_c": 64, "gpu_pct": 99, "reasons": 0x4}


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """NVML with one GPU that draws 431 W."""
    monkeypatch.setenv("FAKE_NVML", str(tmp_path / "state.json"))
    monkeypatch.setitem(sys.modules, "pynvml", nvml_fake.fake)

    def plant(*gpus: dict[str, Any], **faults: dict[str, Any]) -> None:
        nvml_fake.write(tmp_path / "state.json", nvml_fake.state(*gpus, **faults))

    plant(nvml_fake.gpu(rows=[nvml_fake.ROW | ROW]))
    return plant


def test_nvml_reads_watts_energy_clocks_and_reasons(fake: Any) -> None:
    meter = nvml.open_meter()
    (one,) = meter.read()
    (again,) = meter.read()
    meter.close()
    assert (one.watts, one.sm_hz, one.memory_hz, one.celsius) == (431.0, 1.395e9, 2.619e9, 64.0)
    assert (one.limit_w, one.utilisation) == (700.0, 0.99)
    assert (one.capped, one.hot, one.slowed) == (1.0, 0.0, 0.0)
    assert one.joules is not None
    assert again.joules is not None
    assert again.joules >= one.joules
    assert again.at > one.at
    (device,) = meter.devices
    assert (device.name, device.watts_are, device.highest_sm_hz) == ("NVIDIA H200", "instantaneous", 1.98e9)


@pytest.mark.parametrize("name", ["nvmlDeviceGetTotalEnergyConsumption", "nvmlDeviceGetFieldValues"])
def test_what_a_card_does_not_answer_is_none_and_said(fake: Any, name: str) -> None:
    fake(nvml_fake.gpu(rows=[nvml_fake.ROW | ROW]), **{name: {"error": 3}})
    meter = nvml.open_meter()
    (one,) = meter.read()
    assert one.watts == 431.0
    if name == "nvmlDeviceGetTotalEnergyConsumption":
        assert one.joules is None
        assert meter.devices[0].counter == ""
    else:
        assert "mean of the last second" in meter.devices[0].watts_are


def test_a_mig_card_says_that_its_figures_are_of_the_whole_card(fake: Any) -> None:
    fake(nvml_fake.gpu(mig=[1, 1], rows=[nvml_fake.ROW | ROW]))
    assert "whole card" in nvml.open_meter().devices[0].notes[0]


def test_a_gpu_that_falls_off_the_bus_is_silent_not_a_crash(fake: Any) -> None:
    meter = nvml.open_meter()
    fake(nvml_fake.gpu(lost=True))
    (one,) = meter.read()
    assert one.watts is None


def test_no_nvml_is_one_sentence_with_the_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(Unreadable, match=r"pip install 'phasewise\[nvidia\]'"):
        nvml.open_meter()


def test_the_bits_are_nvml_s() -> None:
    pynvml = pytest.importorskip("pynvml")
    names = {"capped": ("SwPowerCap",), "hot": ("SwThermalSlowdown", "HwThermalSlowdown"), "slowed": ("HwSlowdown",)}
    for field, reasons in names.items():
        for reason in reasons:
            assert held(getattr(pynvml, f"nvmlClocksEventReason{reason}"))[field] == 1
    for harmless in ("GpuIdle", "ApplicationsClocksSetting", "SyncBoost", "DisplayClockSetting", "None"):
        assert not any(held(getattr(pynvml, f"nvmlClocksEventReason{harmless}")).values())


# --- RAPL ---------------------------------------------------------------------------------------------------------


def test_rapl_reads_packages_and_memory_and_no_part_twice(tmp_path: Path) -> None:
    for name, about in {
        "intel-rapl:0": {"name": "package-0", "constraint_0_power_limit_uw": 205_000_000},
        "intel-rapl:0:0": {"name": "core"},
        "intel-rapl:0:1": {"name": "dram"},
        "intel-rapl:1": {"name": "psys"},
    }.items():
        folder = tmp_path / name
        folder.mkdir()
        for file, content in ({"energy_uj": 123_456_789, "max_energy_range_uj": 262_143_328_850} | about).items():
            (folder / file).write_text(f"{content}\n")
    meter = rapl.open_meter(tmp_path)
    assert [device.name for device in meter.devices] == ["CPU package-0 (intel-rapl:0)", "CPU dram (intel-rapl:0:1)"]
    assert meter.devices[0].wraps_at == pytest.approx(262_143.32885)
    first, _ = meter.read()
    assert first.joules == pytest.approx(123.456789)
    assert first.limit_w == 205.0
    assert first.watts is None
    (tmp_path / "intel-rapl:0" / "energy_uj").write_text("garbage")
    assert meter.read()[0].joules is None


def test_no_rapl_is_one_sentence_with_the_cure(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match="measure on the host"):
        rapl.open_meter(tmp_path / "gone")
    (tmp_path / "intel-rapl:0").mkdir()
    (tmp_path / "intel-rapl:0" / "name").write_text("package-0")
    (tmp_path / "intel-rapl:0" / "energy_uj").mkdir()  # root too cannot read a folder
    with pytest.raises(Unreadable, match=r"sudo chmod a\+r"):
        rapl.open_meter(tmp_path)


def test_apple_tells_the_command_for_root() -> None:
    with pytest.raises(Unreadable, match="sudo powermetrics"):
        apple.open_meter()


# --- AMD SMI: names, fields and units of amdsmi 7.0.2 ----------------------------------------------------------------


NAMES = (
    "amdsmi_init",
    "amdsmi_shut_down",
    "amdsmi_get_processor_handles",
    *("amdsmi_get_power_info", "amdsmi_get_energy_count", "amdsmi_get_clock_info", "amdsmi_get_temp_metric"),
    *("amdsmi_get_gpu_activity", "amdsmi_get_power_cap_info", "amdsmi_get_gpu_asic_info", "amdsmi_get_gpu_device_uuid"),
)


class AmdSmiException(Exception):
    pass


def _amdsmi(**answers: Any) -> ModuleType:
    module = ModuleType("amdsmi")

    def answered(name: str) -> Any:
        def ask(*about: object) -> Any:
            value = answers.get(name)
            if isinstance(value, Exception):
                raise value
            return value

        return ask

    for name in NAMES:
        setattr(module, name, answered(name))
    module.AmdSmiException = AmdSmiException  # type: ignore[attr-defined]
    module.AmdSmiClkType = SimpleNamespace(GFX=1, MEM=5)  # type: ignore[attr-defined]
    module.AmdSmiTemperatureType = SimpleNamespace(HOTSPOT=1)  # type: ignore[attr-defined]
    module.AmdSmiTemperatureMetric = SimpleNamespace(CURRENT=0)  # type: ignore[attr-defined]
    return module


MI300X = {
    "amdsmi_get_processor_handles": ["handle"],
    "amdsmi_get_power_info": {"socket_power": 612, "current_socket_power": 612, "average_socket_power": "N/A"},
    "amdsmi_get_energy_count": {"energy_accumulator": 10**9, "counter_resolution": 15.3, "timestamp": 1},
    "amdsmi_get_clock_info": {"clk": 2100, "max_clk": 2100, "min_clk": 132},
    "amdsmi_get_temp_metric": 71,
    "amdsmi_get_gpu_activity": {"gfx_activity": 99, "umc_activity": 40, "mm_activity": "N/A"},
    "amdsmi_get_power_cap_info": {"power_cap": 750_000_000, "max_power_cap": 750_000_000},
    "amdsmi_get_gpu_asic_info": {"market_name": "AMD Instinct MI300X"},
    "amdsmi_get_gpu_device_uuid": "1cff74a1-0000-1000-80b5-5d64f1b1a2c3",
}


def test_amd_smi_reads_watts_energy_and_clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "amdsmi", _amdsmi(**MI300X))
    meter = amd.open_meter()
    (one,) = meter.read()
    meter.close()
    assert (one.watts, one.limit_w, one.sm_hz, one.celsius, one.utilisation) == (612.0, 750.0, 2.1e9, 71.0, 0.99)
    assert one.joules == pytest.approx(15_300.0)  # 1e9 counts of 15.3 µJ
    assert one.capped is None
    assert meter.devices[0].name == "AMD Instinct MI300X"


def test_an_older_amd_gpu_and_a_secondary_die(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = MI300X | {
        "amdsmi_get_power_info": {"current_socket_power": 65535, "average_socket_power": 431},
        "amdsmi_get_energy_count": {"power": 0, "counter_resolution": 15.3, "timestamp": 1},
        "amdsmi_get_temp_metric": AmdSmiException("not supported"),
        "amdsmi_get_power_cap_info": AmdSmiException("not supported"),
    }
    monkeypatch.setitem(sys.modules, "amdsmi", _amdsmi(**answers))
    (one,) = amd.open_meter().read()
    assert (one.watts, one.joules, one.celsius, one.limit_w) == (431.0, None, None, None)


def test_no_amd_is_one_sentence_with_the_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "amdsmi", None)
    with pytest.raises(Unreadable, match="pip install amdsmi"):
        amd.open_meter()
    monkeypatch.setitem(sys.modules, "amdsmi", _amdsmi(amdsmi_get_processor_handles=AmdSmiException("34, no driver")))
    with pytest.raises(Unreadable, match="no driver"):
        amd.open_meter()


# --- DCGM exporter ------------------------------------------------------------------------------------------------


class Exporter(BaseHTTPRequestHandler):
    page: ClassVar[str] = ""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.page.encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's name
        pass


@pytest.fixture
def exporter() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Exporter) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/metrics"
        server.shutdown()
        thread.join()


def test_an_exporter_is_read_over_http(exporter: str) -> None:
    labels = 'gpu="0",UUID="GPU-a",modelName="NVIDIA H100 80GB HBM3"'
    Exporter.page = (
        f"DCGM_FI_DEV_POWER_USAGE{{{labels}}} 312.5\n"
        f"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{{{labels}}} 196764132\n"
        f"DCGM_FI_DEV_SM_CLOCK{{{labels}}} 1980\nDCGM_FI_DEV_CLOCK_THROTTLE_REASONS{{{labels}}} 68\n"
        f"DCGM_FI_DEV_ENFORCED_POWER_LIMIT{{{labels}}} 700\n"
    )
    meter = dcgm.open_meter(exporter)
    (one,) = meter.read()
    assert (one.watts, one.joules, one.sm_hz, one.limit_w) == (312.5, 196764.132, 1.98e9, 700.0)
    assert (one.capped, one.hot, one.slowed) == (1.0, 1.0, 0.0)
    assert meter.devices[0].uuid == "GPU-a"
    Exporter.page = "<html>gone</html>"
    assert meter.read() == []


def test_an_exporter_that_is_none(exporter: str) -> None:
    Exporter.page = "<html></html>"
    with pytest.raises(Unreadable, match="DCGM_FI_DEV_POWER_USAGE"):
        dcgm.open_meter(exporter)
    with pytest.raises(Unreadable, match="does not answer"):
        dcgm.open_meter("http://127.0.0.1:9/metrics")
    for url in ("file:///etc/passwd", "ftp://127.0.0.1/", "host:9400"):
        with pytest.raises(Unreadable, match="no page of an exporter"):
            dcgm.open_meter(url)
    with pytest.raises(Unreadable, match="--exporter"):
        dcgm.open_meter()


def test_every_meter_is_tried_and_says_why_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.setitem(sys.modules, "amdsmi", None)
    monkeypatch.setattr("platform.system", lambda: "Linux")
    found = {one.name: one for one in meters.tried()}
    assert list(found) == ["NVML", "AMD SMI", "RAPL"]
    assert all(one.meter or one.why_not for one in found.values())
    monkeypatch.setattr("platform.system", lambda: "Darwin")
    assert "powermetrics" in {one.name for one in meters.tried()}
