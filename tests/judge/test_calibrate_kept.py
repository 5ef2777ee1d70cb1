"""Calibrations kept by name."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from phasewise.errors import InputError, UsageError
from phasewise.record import calibration
from phasewise.record.calibration import Calibration
from phasewise.record.quantity import measured


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path / "phasewise" / "calibrations"


def kept(name: str = "mine") -> Calibration:
    return Calibration(
        name=name,
        created="2026-11-29T00:00:00+00:00",
        engine="",
        model="m",
        machine="x",
        weights="bf16",
        kv="bf16",
        basis="datasheet",
        dtype="bf16",
        peak_flops=1e15,
        bandwidth=1e12,
        link_rate=None,
        assumed_from="GPUs",
        parameters={"compute": measured(0.7, "1", "fit", 0.6, 0.8)},
        scatter=0.1,
        folds=({"compute": 0.7},),
        points=(),
        scores=(),
    )


def test_what_is_kept_comes_back(home: Path) -> None:
    calibration.save(kept())
    assert calibration.file_of("mine") == home / "mine.json"
    assert calibration.load("mine") == kept()
    calibration.save(msgspec.structs.replace(kept(), scatter=0.2))
    assert calibration.load("mine").scatter == 0.2
    assert calibration.names() == ("mine",)
    assert [one.name for one in home.iterdir()] == ["mine.json"]


@pytest.mark.parametrize("name", ["../up", "a/b", "", ".hidden", "a b", "prior", "x" * 200, "a\nb", "-flag"])
def test_names_that_are_no_file_names_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match="cannot be a calibration's name"):
        calibration.save(kept(name))
    with pytest.raises(UsageError):
        calibration.load(name)


def test_an_unknown_name_lists_those_there_are() -> None:
    with pytest.raises(UsageError, match="`phasewise calibrate` keeps them"):
        calibration.load("none")
    calibration.save(kept())
    with pytest.raises(UsageError, match="kept are mine"):
        calibration.load("none")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": "x"}', '{"schema": 1}', "\x00"])
def test_a_damaged_file_is_one_sentence(home: Path, text: str) -> None:
    home.mkdir(parents=True)
    (home / "mine.json").write_text(text)
    with pytest.raises(InputError, match="calibrate again") as caught:
        calibration.load("mine")
    assert "\n" not in str(caught.value)


def test_a_newer_file_asks_for_an_upgrade(home: Path) -> None:
    home.mkdir(parents=True)
    (home / "mine.json").write_text('{"schema": 99}')
    with pytest.raises(InputError, match="newer phasewise"):
        calibration.load("mine")


def test_a_relative_config_home_is_not_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative")
    assert calibration.folder() == Path("~/.config/phasewise/calibrations").expanduser()
