"""What `phasewise profile` keeps, and what its exit code says, when something cannot be saved or was not measured."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from cli_run import one_sentence, phasewise

from phasewise.cli import run
from phasewise.engines.simulated import Plan, SimulatedServer
from phasewise.isolate.ledger import table
from phasewise.jobs import ground
from phasewise.jobs import profile as job
from phasewise.record.machine import Machine
from phasewise.record.observation import Check, Observation
from phasewise.record.run import Run

FAST = Plan(prefill_overhead_s=3e-3, prefill_per_token_s=1e-6, decode_overhead_s=1e-3, max_context=2048)


@pytest.fixture
def server() -> Iterator[SimulatedServer]:
    with SimulatedServer(FAST) as running:
        yield running


def test_a_folder_that_cannot_be_written_to_is_said_before_anything_is_measured(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    # Nothing listens there: that would be the next thing to find out.
    sentence = one_sentence(phasewise("profile", "http://127.0.0.1:9", "--out", "file", cwd=tmp_path), 2)
    assert "--out" in sentence


def full(*_: object, **__: object) -> None:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize(
    ("broken", "lost"),
    [
        ((job, "save"), ["run.json"]),
        ((table, "merge"), ["requests.parquet"]),
        ((Path, "write_text"), ["report.html"]),
    ],
)
@pytest.mark.parametrize("as_json", [False, True])
def test_what_cannot_be_saved_is_said_and_the_report_is_still_printed(
    server: SimulatedServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    broken: tuple[object, str],
    lost: list[str],
    as_json: bool,
) -> None:
    monkeypatch.setattr(*broken, full)
    arguments = ["profile", server.url, "--budget", "1", "--out", str(tmp_path)]
    assert run([*arguments, "--json"] if as_json else arguments) == 3
    out, err = capsys.readouterr()
    assert err.count("\n") == 1
    assert err.startswith("phasewise: not saved in ")
    for name in lost:
        assert f"{name} (No space left on device" in err
    if as_json:
        assert json.loads(out)["decode"]["tpot_s"] > 0
    else:
        assert "RECAP" in out
        assert "Shown again by" not in out


def test_a_phase_that_was_asked_for_and_not_measured_makes_the_run_partial(
    server: SimulatedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("phasewise.isolate.decode.measure", lambda *_, **__: "no answer fitted the budget")
    assert run(["profile", server.url, "--budget", "1", "--out", str(tmp_path), "--json"]) == 3
    found = json.loads(capsys.readouterr().out)
    assert found["status"] == found["run"]["status"] == "partial"
    assert "decode not measured" in found["run"]["reason"]
    assert "no answer fitted the budget" in found["run"]["reason"]
    assert run(["profile", server.url, "--budget", "1", "--out", str(tmp_path), "--phase", "prefill"]) == 0


@pytest.mark.parametrize(("voids", "code"), [(True, 3), (False, 0)])
def test_a_failed_check_that_voids_a_phase_without_a_verdict_counts_too(voids: bool, code: int) -> None:
    check = Check(name="streamed", phase="decode", status="failed", detail="", voids=voids)
    seen = Observation(
        prefill=None, decode=None, checks=(check,), requests=1, prompt_tokens=1, output_tokens=1, stopped=""
    )
    envelope = job.envelope("profile", "x", 0.0)
    assert job._exit_code(Run(envelope=envelope, observation=seen)) == code


def test_a_run_that_is_none_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "deep.json").write_text("[" * 100_000)
    for path in ("deep.json", "/dev/zero", "x" * 5000):
        assert len(one_sentence(phasewise("report", path, cwd=tmp_path), 2)) < 400


def test_the_latest_run_of_one_second_is_the_last_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    from phasewise.jobs.saved import find
    from phasewise.record.run import RUNS, save

    monkeypatch.chdir(tmp_path)
    for age, name in enumerate(("20260101T000000Z-b", "20260101T000000Z-a-2", "20250101T000000Z-a")):
        folder = RUNS / name
        folder.mkdir(parents=True)
        envelope = msgspec.structs.replace(job.envelope("profile", "x", 0.0), id=name)
        save(Run(envelope=envelope), folder)
        os.utime(folder, (1000 + age, 1000 + age))
    assert find(None)[0].envelope.id == "20260101T000000Z-a-2"


def test_ceilings_of_more_cores_than_the_engine_had_are_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("phasewise.engines.embedded.usable_cores", lambda: 8)
    machine = Machine(name="a cpu", kind="cpu", local=True, notes=("first",))
    assert ground._with_threads(machine, 2).notes == (
        "first",
        "The ceilings are those of all 8 usable cores; the engine ran on 2 (--threads).",
    )
    assert ground._with_threads(machine, None) is ground._with_threads(machine, 8) is machine
