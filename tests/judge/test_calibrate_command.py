"""`phasewise calibrate` and `predict --calibrated`, as a user calls them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from calibrate_oracle import decode_s, points, prefill_s

from phasewise.cli import run
from phasewise.hardware import catalogue
from phasewise.judge.case import Ask, Case
from phasewise.judge.judge import judge
from phasewise.model.load import load as load_model
from phasewise.record import run as runs
from phasewise.record.envelope import Envelope
from phasewise.record.run import Run
from planted import decode, prefill
from planted import seen as observed

ON = ("--model", "llama-3-8b", "--on", "h100-sxm")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path


@pytest.fixture
def planted(home: Path) -> str:
    file = home / "points.csv"
    rows = [f"{p.phase},{p.tokens},{p.batch},{p.context},{p.seconds},1" for p in points()]
    file.write_text("\n".join(["phase,tokens,batch,context,seconds,tp", *rows]))
    return str(file)


def document(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert run([*arguments, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def refused(capsys: pytest.CaptureFixture[str], code: int, *arguments: str) -> str:
    assert run(list(arguments)) == code
    said = capsys.readouterr()
    assert said.out == ""
    assert len(said.err.strip().splitlines()) == 1
    return said.err


def test_calibrate_then_predict(planted: str, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = document(capsys, "calibrate", planted, *ON, "--name", "mine", "--engine", "oracle 1.0")
    assert kept["parameters"]["compute"] == pytest.approx(0.70, abs=0.05)
    assert kept["provenance"]["parameters.compute"]["provenance"] == "measured"
    assert kept["provenance"]["parameters.link"]["provenance"] == "assumed"
    assert kept["scores"]["prefill"]["points"] == 5
    assert kept["scores"]["decode"]["held_out_mean"] < kept["scores"]["decode"]["plain_mean"]
    assert Path(kept["file"]) == home / "config" / "phasewise" / "calibrations" / "mine.json"
    assert {one["phase"] for one in kept["points"]} == {"prefill", "decode"}

    found = document(
        capsys, "predict", "llama-3-8b", "--on", "h100-sxm", "--prompt", "3000", "--batch", "16", "--calibrated", "mine"
    )
    seen = found["calibrated"]
    assert seen["about"] == "fitted to 10 points of llama-3-8b on h100-sxm under oracle 1.0"
    assert seen["coverage"] == 0.8
    assert seen["prefill"]["floor_s"] == found["prefill"]["time_s"]
    assert seen["prefill"]["low_s"] < seen["prefill"]["time_s"] < seen["prefill"]["high_s"]
    assert seen["prefill"]["time_s"] == pytest.approx(prefill_s(3000), rel=0.05)
    assert seen["decode"]["time_s"] == pytest.approx(decode_s(3000, 16), rel=0.06)
    assert seen["request"]["total_s"] > found["request"]["total_s"]
    assert found["provenance"]["calibrated.prefill.time_s"]["provenance"] == "predicted"
    far = next(one for one in seen["batch"] if one["batch"] == 128)
    assert far["low_s"] is not None
    assert "plain" not in found


def test_the_tables_say_what_is_measured_and_what_is_assumed(planted: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["calibrate", planted, *ON, "--name", "mine"]) == 0
    text = capsys.readouterr().out
    assert "share of the peak that" in text
    assert "One device only" in text
    assert "--calibrated mine" in text
    assert max(map(len, text.splitlines())) <= 80
    assert run(["predict", "llama-3-8b", "--on", "h100-sxm", "--calibrated", "mine"]) == 0
    text = capsys.readouterr().out
    assert "80% interval" in text
    assert "By mine, fitted to 10 points of llama-3-8b on h100-sxm." in text


def test_another_machine_gets_a_value_and_no_interval(planted: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["calibrate", planted, *ON, "--name", "mine"]) == 0
    capsys.readouterr()
    found = document(capsys, "predict", "llama-3-8b", "--on", "h200-sxm", "--calibrated", "mine")
    assert found["calibrated"]["decode"]["low_s"] is None
    assert "h100-sxm, not of h200-sxm" in found["reasons"]["calibrated.decode.low_s"]
    assert found["calibrated"]["decode"]["time_s"] > found["decode"]["time_s"]


def test_a_prior_needs_no_points(capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, "predict", "llama-3-8b", "--on", "h100-sxm", "--tp", "2", "--calibrated", "prior")
    assert found["calibrated"]["name"] == "prior"
    assert "assumed" in found["calibrated"]["about"]
    assert found["calibrated"]["decode"]["low_s"] < found["calibrated"]["decode"]["high_s"]
    assert "calibrated" not in document(capsys, "predict", "llama-3-8b", "--on", "h100-sxm")


def test_a_saved_run_is_its_own_model_and_machine(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, machine = load_model("llama-3-8b"), catalogue.machine(catalogue.find("h100-sxm"))
    envelope = Envelope(
        id="20261129T000000Z-x",
        command="profile",
        arguments=(),
        created="",
        duration_s=1.0,
        status="complete",
        versions={},
    )
    seen = observed(prefill(0.02, 60e-6), decode(lambda context: 7e-3 + 50e-9 * context))
    folder = home / envelope.id
    folder.mkdir()
    runs.save(Run(envelope=envelope, model=model.facts(), machine=machine, observation=seen), folder)
    kept = document(capsys, "calibrate", str(folder))
    assert kept["name"] == "llama-3-8b-h100-sxm"
    assert len(kept["points"]) == 7
    assert any("One decode batch only (1)" in note for note in kept["notes"])
    assert any("3 decode points" in note for note in kept["notes"])


def test_a_run_that_is_disbelieved_is_not_fitted(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    envelope = Envelope(
        id="20261129T000000Z-x",
        command="profile",
        arguments=(),
        created="",
        duration_s=1.0,
        status="complete",
        versions={},
    )
    runs.save(Run(envelope=envelope), home)
    assert "nothing was measured" in refused(capsys, 2, "calibrate", str(home), *ON)
    slow = observed(prefill(0.02, 60e-6), None)
    case = Case(observation=slow, asks=(Ask(),))
    verdict = judge(case)
    assert verdict.prefill is not None
    doubted = msgspec.structs.replace(verdict, prefill=msgspec.structs.replace(verdict.prefill, believed=False))
    runs.save(Run(envelope=envelope, observation=slow, judgement=doubted), home)
    assert "its own checks disbelieve them" in refused(capsys, 2, "calibrate", str(home), *ON)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--name", "a/b", *ON), 2, "cannot be a calibration's name"),
        (("--on", "h100-sxm"), 2, "--model"),
        (("--model", "llama-3-8b"), 2, "--on"),
        (("--model", "llama-3-8b", "--on", "h100"), 2, "which version"),
        (("--model", "llama-3-70b", "--on", "h100-sxm"), 3, "faster than its floor"),
    ],
)
def test_mistakes(
    planted: str, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], code: int, words: str
) -> None:
    assert words in refused(capsys, code, "calibrate", planted, *arguments)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ("", "no points to fit: nothing was measured"),
        ("prefill,512,1,,0.05,1\n", "this is 1"),
        ("prefill,512,1,,0.05,1\nprefill,512,1,,0.06,1\n", "this is 1"),
        ("prefill,512,1,,0.05,3\nprefill,1024,1,,0.06,3\n", "cannot be cut over 3 devices"),
    ],
)
def test_points_that_are_too_few(home: Path, capsys: pytest.CaptureFixture[str], rows: str, words: str) -> None:
    file = home / "few.csv"
    file.write_text("phase,tokens,batch,context,seconds,tp\n" + rows)
    assert words in refused(capsys, 2, "calibrate", str(file), *ON)
    assert not (home / "config").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--calibrated", "none"), "no calibration 'none'"),
        (("--calibrated", "../x"), "cannot be a calibration's name"),
        (("--pp", "2", "--calibrated", "prior"), "pipeline"),
    ],
)
def test_predict_refuses(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], words: str) -> None:
    assert words in refused(capsys, 2, "predict", "llama-3-8b", "--on", "h100-sxm", *arguments)


def test_ctrl_c_keeps_nothing(
    planted: str, home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("phasewise.judge.calibrate.calibrate.hold_out", interrupted)
    assert run(["calibrate", planted, *ON]) == 130
    assert capsys.readouterr().out == ""
    assert not (home / "config").exists()


def test_other_ceilings_are_refused(planted: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["calibrate", planted, *ON, "--bandwidth", "3.35TB/s", "--peak", "989TFLOP/s", "--name", "mine"]) == 0
    capsys.readouterr()
    said = refused(capsys, 2, "predict", "llama-3-8b", "--on", "h100-sxm", "--calibrated", "mine")
    assert "stated ceilings" in said
