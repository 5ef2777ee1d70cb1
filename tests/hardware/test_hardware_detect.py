"""Detection with planted drivers: what NVML says decides, and no answer of it makes detection fail."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from phasewise.hardware.detect import this_cpu, this_machine
from phasewise.record.machine import Machine

H100 = "NVIDIA H100 80GB HBM3"


class Driver:
    """A planted NVML: one dict per card with name, memory, watts, mig (names of its slices)."""

    NVMLError = pynvml.NVMLError
    NVML_DEVICE_MIG_ENABLE = 1

    def __init__(self, *cards: dict[str, Any]) -> None:
        self.cards = cards
        self.open = 0

    def nvmlInit(self) -> None:  # noqa: N802 - names of the real library
        if not self.cards:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)
        self.open += 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.open -= 1

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return len(self.cards)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> dict[str, Any]:  # noqa: N802
        return self.cards[index]

    def nvmlDeviceGetName(self, card: dict[str, Any]) -> Any:  # noqa: N802
        return card["name"]

    def nvmlDeviceGetMemoryInfo(self, card: dict[str, Any]) -> Any:  # noqa: N802
        return SimpleNamespace(total=self._or_refuse(card, "memory"))

    def nvmlDeviceGetEnforcedPowerLimit(self, card: dict[str, Any]) -> Any:  # noqa: N802
        return self._or_refuse(card, "watts") * 1000

    def nvmlDeviceGetMigMode(self, card: dict[str, Any]) -> list[int]:  # noqa: N802
        return [1 if self._or_refuse(card, "mig") is not None else 0, 0]

    def nvmlDeviceGetMaxMigDeviceCount(self, card: dict[str, Any]) -> int:  # noqa: N802
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, card: dict[str, Any], slot: int) -> dict[str, Any]:  # noqa: N802
        if slot >= len(card["mig"]):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return {"name": card["mig"][slot], "memory": 10 * 2**30}

    def _or_refuse(self, card: dict[str, Any], what: str) -> Any:
        if what not in card:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return card[what]


def _detect(monkeypatch: pytest.MonkeyPatch, *cards: dict[str, Any]) -> Machine:
    driver = Driver(*cards)
    monkeypatch.setitem(sys.modules, "pynvml", driver)
    found = this_machine()
    assert driver.open == 0
    assert found.local
    return found


def test_a_known_card_has_the_catalogues_ceilings_and_the_drivers_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    found = _detect(monkeypatch, {"name": H100, "memory": 85_520_809_984, "watts": 700.0})
    assert (found.name, found.kind, found.devices) == ("h100-sxm", "gpu", 1)
    assert found.ceilings[0].compute["bf16"].value == 989e12
    assert found.memory_bytes is not None
    assert (found.memory_bytes.value, found.memory_bytes.provenance) == (85_520_809_984, "reported")
    assert found.power_limit_w is not None
    assert found.power_limit_w.value == 700
    assert not any("power limit" in note for note in found.notes)


def test_a_power_cap_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    found = _detect(monkeypatch, {"name": H100.encode(), "watts": 400.0})
    assert any("power limit is 400 W" in note and "700 W" in note for note in found.notes)


def test_an_unknown_card_has_no_ceilings(monkeypatch: pytest.MonkeyPatch) -> None:
    found = _detect(monkeypatch, {"name": "NVIDIA RTX\x1b[2J A4000", "memory": 16 * 2**30})
    assert found.name == "NVIDIA RTX[2J A4000"
    assert found.ceilings == ()
    assert any("not in the catalogue" in note and "TFLOP/s" in note for note in found.notes)


def test_an_ambiguous_driver_name_is_unknown_too(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _detect(monkeypatch, {"name": "NVIDIA H100"}).ceilings == ()


def test_equal_cards_are_one_device_and_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    found = _detect(monkeypatch, {"name": H100}, {"name": H100})
    assert (found.name, found.devices) == ("h100-sxm", 1)
    assert any("2 x NVIDIA H100" in note and "--devices" in note for note in found.notes)


def test_different_cards_are_not_guessed_between(monkeypatch: pytest.MonkeyPatch) -> None:
    found = _detect(monkeypatch, {"name": H100}, {"name": "NVIDIA L4"})
    assert (found.kind, found.ceilings) == ("gpu", ())
    assert any(H100 in note and "NVIDIA L4" in note and "--on" in note for note in found.notes)


@pytest.mark.parametrize("slices", [[], [f"{H100} MIG 1g.10gb"], [H100]])
def test_a_slice_has_not_the_cards_ceilings(monkeypatch: pytest.MonkeyPatch, slices: list[str]) -> None:
    found = _detect(monkeypatch, {"name": H100, "memory": 80 * 2**30, "watts": 700.0, "mig": slices})
    assert found.ceilings == ()
    assert any("MIG" in note for note in found.notes)
    assert found.memory_bytes is not None
    assert found.memory_bytes.value == (10 if slices else 80) * 2**30


def test_mig_switched_off_is_a_whole_card(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _detect(monkeypatch, {"name": H100, "mig": None}).name == "h100-sxm"


def test_without_a_driver_or_a_gpu_it_is_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    found = _detect(monkeypatch)
    assert (found.kind, found.ceilings) == ("cpu", ())
    monkeypatch.setitem(sys.modules, "pynvml", None)  # not installed
    assert this_machine() == found == this_cpu()
    assert found.memory_bytes is not None
    assert any("usable" in note for note in found.notes)
