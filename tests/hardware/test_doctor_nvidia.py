"""NVIDIA's lines of doctor, with planted drivers whose every name is one of the real library's."""

from __future__ import annotations

import ast
import inspect
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from phasewise.hardware.doctor import nvidia as checks
from phasewise.record.doctor import Finding

H100: dict[str, Any] = {
    "nvmlDeviceGetName": "NVIDIA H100 80GB HBM3",
    "nvmlDeviceGetMemoryInfo": SimpleNamespace(used=3 * 2**30, total=80 * 2**30),
    "nvmlDeviceGetMigMode": [0, 0],
    "nvmlDeviceGetComputeMode": 0,
    "nvmlDeviceGetClockInfo": 345,
    "nvmlDeviceGetMaxClockInfo": 1980,
    "nvmlDeviceGetCurrentClocksEventReasons": 1,
    "nvmlDeviceGetEnforcedPowerLimit": 700_000,
    "nvmlDeviceGetPowerManagementDefaultLimit": 700_000,
    "nvmlDeviceGetPowerManagementLimitConstraints": [200_000, 700_000],
    "nvmlDeviceGetPersistenceMode": 1,
    "nvmlDeviceGetEccMode": [1, 1],
    "nvmlDeviceGetTotalEnergyConsumption": 1,
}


class Driver:
    """NVML's constants, and answers planted per card by the name of the call; no answer: not supported."""

    def __init__(self, *cards: dict[str, Any], start: int = 0) -> None:
        self.cards, self.start, self.open = cards, start, 0

    def __getattr__(self, name: str) -> Any:
        real = getattr(pynvml, name)  # a name that the real library lacks is an AttributeError here, too
        if name == "nvmlInit":
            return self._init
        if name == "nvmlShutdown":
            return self._shutdown
        planted = {
            "nvmlSystemGetDriverVersion": lambda: "575.51",
            "nvmlSystemGetCudaDriverVersion_v2": lambda: 12090,
            "nvmlDeviceGetCount": lambda: len(self.cards),
            "nvmlDeviceGetHandleByIndex": lambda i: self.cards[i],
        }
        if name in planted:
            return planted[name]
        if inspect.isfunction(real) and name.startswith("nvmlDevice"):
            return lambda card, *more: self._answer(name, card)
        return real

    def _init(self) -> None:
        if self.start:
            raise pynvml.NVMLError(self.start)
        self.open += 1

    def _shutdown(self) -> None:
        self.open -= 1

    def _answer(self, name: str, card: dict[str, Any]) -> Any:
        if name not in card:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return card[name]


def look(monkeypatch: pytest.MonkeyPatch, driver: Driver | None) -> dict[str, Finding]:
    monkeypatch.setitem(sys.modules, "pynvml", driver)
    found = checks.look(Path("/"))
    assert driver is None or driver.open == 0
    return {f"{line.key} {line.what}": line for line in found}


def of(found: dict[str, Finding], key: str) -> Finding:
    (one,) = [line for line in found.values() if line.key == key]
    return one


def test_every_name_that_is_asked_of_nvml_is_the_real_librarys() -> None:
    tree = ast.parse(Path(checks.__file__).read_text(encoding="utf-8"))
    names = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in ("nvml", "pynvml")
    }
    held = {f"nvmlClocksThrottleReason{name}" for name in checks._HELD}
    assert len(names) > 20
    assert not {name for name in names | held if not hasattr(pynvml, name)}
    assert set(H100) <= names | {"nvmlDeviceGetCurrentClocksEventReasons"}


def test_a_card_as_it_should_be_has_nothing_to_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    found = look(monkeypatch, Driver(H100))
    assert {line.status for line in found.values()} == {"ok"}
    assert not any(line.cure for line in found.values())
    assert of(found, "nvidia driver").detail == "575.51, CUDA 12.9, 1 GPU"
    assert of(found, "gpu power limit").detail == "700 W (default 700 W, 200 to 700 W allowed)"
    assert "3.0 of 80.0 GiB" in of(found, "gpu").detail
    assert "SM 345 of 1980 MHz" in of(found, "gpu clocks").detail


def test_cards_that_say_the_same_share_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    capped = H100 | {"nvmlDeviceGetEnforcedPowerLimit": 400_000}
    found = look(monkeypatch, Driver(H100, capped, capped))
    limits = [line for line in found.values() if line.key == "gpu power limit"]
    assert [(line.what, line.status) for line in limits] == [
        ("GPU 0 power limit", "ok"),
        ("GPU 1-2 power limit", "blocked"),
    ]
    assert limits[1].cure == "sudo nvidia-smi -i 1,2 -pl 700"
    assert [line.what for line in found.values() if line.key == "gpu ecc"] == ["GPU 0-2 ECC"]


@pytest.mark.parametrize(
    ("call", "answer", "key", "status", "words", "cure"),
    [
        ("nvmlDeviceGetMigMode", [1, 1], "gpu mig", "blocked", "a slice", "-mig 0"),
        ("nvmlDeviceGetComputeMode", 2, "gpu compute mode", "blocked", "prohibited", "-c DEFAULT"),
        ("nvmlDeviceGetComputeMode", 3, "gpu compute mode", "ok", "one process at a time", ""),
        ("nvmlDeviceGetPersistenceMode", 0, "gpu persistence", "missing", "off", "-pm 1"),
        ("nvmlDeviceGetEccMode", [1, 0], "gpu ecc", "ok", "on; off after a reboot", ""),
        ("nvmlDeviceGetCurrentClocksEventReasons", 0x40 | 0x8, "gpu throttle", "blocked", "temperature", "nvidia-smi"),
        ("nvmlDeviceGetCurrentClocksEventReasons", 0x4, "gpu throttle", "blocked", "the power limit", "-q -d POWER"),
        ("nvmlDeviceGetCurrentClocksEventReasons", 0x2, "gpu throttle", "ok", "nothing holds", ""),
    ],
)
def test_what_is_wrong_is_told_with_its_cure(
    monkeypatch: pytest.MonkeyPatch, call: str, answer: Any, key: str, status: str, words: str, cure: str
) -> None:
    line = of(look(monkeypatch, Driver(H100 | {call: answer})), key)
    assert line.status == status
    assert words in line.detail
    assert cure in line.cure
    assert bool(line.cure) == bool(cure)
    assert "{" not in line.cure


def test_clocks_for_applications_under_the_default_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    lowered = {"nvmlDeviceGetApplicationsClock": 1200, "nvmlDeviceGetDefaultApplicationsClock": 1980}
    line = of(look(monkeypatch, Driver(H100 | lowered)), "gpu application clocks")
    assert (line.status, line.cure) == ("blocked", "sudo nvidia-smi -i 0 -rac")


def test_a_card_that_says_little_is_no_failure_and_is_not_made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    found = look(monkeypatch, Driver({}))
    assert of(found, "gpu").detail == "unknown NVIDIA GPU"
    assert of(found, "gpu power limit").status == "missing"
    assert of(found, "gpu energy").status == "missing"
    assert "gpu clocks GPU 0 clocks" not in found


def test_a_name_that_would_steer_the_terminal_is_harmless(monkeypatch: pytest.MonkeyPatch) -> None:
    found = look(monkeypatch, Driver({"nvmlDeviceGetName": b"GPU\x1b[2J"}))
    assert "\x1b" not in of(found, "gpu").detail


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, "missing"),
        (pynvml.NVML_ERROR_DRIVER_NOT_LOADED, "missing"),
        (pynvml.NVML_ERROR_NO_PERMISSION, "blocked"),
        (pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH, "blocked"),
    ],
)
def test_a_driver_that_does_not_start(monkeypatch: pytest.MonkeyPatch, code: int, status: str) -> None:
    (line,) = look(monkeypatch, Driver(start=code)).values()
    assert (line.key, line.status) == ("nvidia driver", status)
    assert line.cure


def test_without_the_extra_or_without_a_card(monkeypatch: pytest.MonkeyPatch) -> None:
    (line,) = look(monkeypatch, None).values()
    assert line.cure.startswith("pip install 'phasewise[nvidia]'")
    (line,) = look(monkeypatch, Driver()).values()
    assert (line.status, line.detail) == ("missing", "575.51, but no GPU")


@pytest.mark.parametrize(("loaded", "status"), [(True, "blocked"), (False, "missing")])
def test_without_nvidia_ml_py_a_driver_is_seen_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loaded: bool, status: str
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    if loaded:
        (tmp_path / "proc/driver/nvidia").mkdir(parents=True)
    (found,) = checks.look(tmp_path)
    assert (found.status, "nvidia-ml-py" in found.detail, "phasewise[nvidia]" in found.cure) == (status, True, True)
