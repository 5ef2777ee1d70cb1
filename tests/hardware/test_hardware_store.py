"""Measured ceilings kept per machine: what comes back, and what damage does."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hardware_programs import end, plant, plant_stages, round_of, stage

from phasewise.errors import InputError, PhasewiseError
from phasewise.hardware import catalogue, ceilings, host, store
from phasewise.hardware.detect import this_cpu
from phasewise.record.machine import Ceilings, Machine
from phasewise.record.quantity import assumed, measured

FOUND = Ceilings(
    basis="measured",
    compute={"fp32": measured(4e11, "FLOP/s", "planted", low=3e11, high=4e11)},
    bandwidth=measured(5e10, "B/s", "planted"),
    how="Measured by a test.",
)


@pytest.fixture(autouse=True)
def _cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    plant(monkeypatch, tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def _plant(monkeypatch: pytest.MonkeyPatch, rate: float = 7e10, cpu_share: float = 1.0) -> None:
    plant_stages(monkeypatch, stage(lines=[round_of("fp32", rate, cpu_share), end()]))


def _file() -> Path:
    return store._file(this_cpu())


def test_what_is_kept_comes_back() -> None:
    machine = this_cpu()
    assert store.load(machine) is None
    store.save(machine, FOUND)
    assert store.load(machine) == FOUND
    assert [file.suffix for file in _file().parent.iterdir()] == [".json"]  # no partial file is left


def test_measured_once_then_kept_then_again(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = this_cpu()
    _plant(monkeypatch, 7e10)
    assert ceilings.ensure(machine, 1.0).ceilings[0].compute["fp32"].value == 7e10
    _plant(monkeypatch, 9e10)
    assert ceilings.ensure(machine, 1.0).ceilings[0].compute["fp32"].value == 7e10
    assert ceilings.ensure(machine, 1.0, again=True).ceilings[0].compute["fp32"].value == 9e10
    assert ceilings.with_measured(machine).ceilings[0].compute["fp32"].value == 9e10


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"{",
        b"\xff\x00",
        b"[]",
        b'{"machine": "x", "ceilings": 3}',
        b'{"machine": "x", "ceilings": {"basis": "measured", "compute": {}, "bandwidth": {"value": NaN}}}',
        msgspec.json.encode(store.Kept(machine="x", ceilings=msgspec.structs.replace(FOUND, basis="datasheet"))),
        msgspec.json.encode(
            store.Kept(machine="x", ceilings=msgspec.structs.replace(FOUND, bandwidth=measured(-1.0, "B/s", "")))
        ),
        msgspec.json.encode(
            store.Kept(machine="x", ceilings=msgspec.structs.replace(FOUND, bandwidth=measured(1.0, "s", "")))
        ),
        msgspec.json.encode(
            store.Kept(machine="x", ceilings=msgspec.structs.replace(FOUND, bandwidth=assumed(1e9, "B/s", "")))
        ),
    ],
)
def test_damage_is_noted_and_measured_over(monkeypatch: pytest.MonkeyPatch, damage: bytes) -> None:
    _plant(monkeypatch)
    _file().parent.mkdir(parents=True)
    _file().write_bytes(damage)
    with pytest.raises(InputError, match="kept for"):
        store.load(this_cpu())
    found = ceilings.ensure(this_cpu(), 1.0)
    assert found.ceilings[0].compute["fp32"].value == 7e10
    assert any("Measured again" in note and "damaged" in note for note in found.notes)
    assert not any("Measured again" in note for note in ceilings.ensure(this_cpu(), 1.0).notes)


def test_another_version_is_measured_again_without_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    _plant(monkeypatch)
    store.save(this_cpu(), FOUND)
    _file().write_bytes(_file().read_bytes().replace(b'"version": 1', b'"version": 99'))
    assert store.load(this_cpu()) is None


def test_what_cannot_be_kept_is_still_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    _plant(monkeypatch)
    _file().mkdir(parents=True)  # a folder where the file should be
    found = ceilings.ensure(this_cpu(), 1.0)
    assert found.ceilings[0].compute["fp32"].value == 7e10
    assert any("measured again next time" in note for note in found.notes)


def test_what_other_programs_disturbed_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    _plant(monkeypatch, cpu_share=0.5)
    found = ceilings.ensure(this_cpu(), 1.0)
    assert found.ceilings[0].compute["fp32"].value == 7e10
    assert any("not kept" in note for note in found.notes)
    assert store.load(this_cpu()) is None


def test_measured_ceilings_stand_between_stated_and_datasheet() -> None:
    l4 = msgspec.structs.replace(catalogue.machine(catalogue.find("l4")), local=True)
    stated = catalogue.with_overrides(l4, 1e12)
    store.save(stated, FOUND)
    found = ceilings.ensure(stated)
    assert [one.basis for one in found.ceilings] == ["stated", "measured", "datasheet"]
    assert [one.basis for one in ceilings.ensure(found).ceilings] == ["stated", "measured", "datasheet"]


def test_a_machine_that_cannot_be_measured_keeps_what_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    plant_stages(monkeypatch, stage(dies="no memory"))
    with pytest.raises(PhasewiseError, match="no memory"):
        ceilings.ensure(this_cpu(), 1.0)
    found = ceilings.with_measured(this_cpu())
    assert found.ceilings == ()
    assert any("not measured" in note and "no memory" in note for note in found.notes)


def test_machines_that_differ_have_files_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = set()
    for changes in ({}, {"threads": 3}, {"stepping": "1-2-3"}, {"name": "Other CPU"}, {"cache": 1}):
        cpu = host.cpu()._replace(**changes)
        monkeypatch.setattr(host, "cpu", lambda cpu=cpu: cpu)
        keys.add(store.key(this_cpu()))
        keys.add(store.key(Machine(name="../../../x\x00" + "y" * 300, kind="gpu", local=True)))
        monkeypatch.undo()
    assert len(keys) == 10
    assert all("/" not in key and len(key) < 120 for key in keys)


def test_a_relative_cache_folder_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert _file().is_relative_to(tmp_path / ".cache" / "phasewise" / "ceilings")
