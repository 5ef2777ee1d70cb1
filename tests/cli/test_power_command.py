"""`phasewise power` as a user runs it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
import pytest
from cli_run import COMMAND, environment, phasewise

import nvml_fake

BUSY = nvml_fake.ROW | {"power_w": 431.0, "sm_mhz": 1980, "mem_mhz": 2619, "temperature_c": 61, "gpu_pct": 100}


def fake(folder: Path, *gpus: dict[str, Any]) -> dict[str, str]:
    """Variables under which the command sees these GPUs."""
    nvml_fake.write(folder / "state.json", nvml_fake.state(*gpus))
    found = nvml_fake.environment(folder / "state.json")
    return {name: found[name] for name in ("FAKE_NVML", "PYTHONPATH")}


def none(folder: Path) -> dict[str, str]:
    """Variables under which there is no NVIDIA package."""
    (folder / "hidden").mkdir()
    (folder / "hidden" / "pynvml.py").write_text("raise ImportError\n")
    before = os.environ.get("PYTHONPATH", "")
    return {"PYTHONPATH": os.pathsep.join([str(folder / "hidden"), *([before] if before else [])])}


def test_without_a_meter_it_is_one_sentence_with_the_cure(tmp_path: Path) -> None:
    done = phasewise("power", cwd=tmp_path, **none(tmp_path))
    if done.code == 0:
        pytest.skip("this machine has a meter of another kind")
    assert (done.code, done.out) == (2, "")
    assert done.err.count("\n") == 1
    for word in ("pip install 'phasewise[nvidia]'", "RAPL", "--telemetry FILE", "--exporter"):
        assert word in done.err
    assert "Traceback" not in done.err
    again = phasewise(
        "power", "--json", cwd=tmp_path, **{"PYTHONPATH": os.environ.get("PYTHONPATH", "")} | none_again(tmp_path)
    )
    assert (again.code, again.out) == (2, "")


def none_again(folder: Path) -> dict[str, str]:
    before = os.environ.get("PYTHONPATH", "")
    return {"PYTHONPATH": os.pathsep.join([str(folder / "hidden"), *([before] if before else [])])}


def test_it_shows_what_can_be_read_here(tmp_path: Path) -> None:
    gpus = (nvml_fake.gpu(rows=[BUSY]), nvml_fake.gpu(rows=[nvml_fake.ROW | {"power_w": 75.0}], uuid="GPU-1"))
    done = phasewise("power", "--for", "400ms", cwd=tmp_path, **fake(tmp_path, *gpus))
    assert done.code == 0
    assert "431 W" in done.out
    assert "75.0 W" in done.out
    assert "\x1b" not in done.out
    document = phasewise("power", "--for", "400ms", "--json", cwd=tmp_path, **fake(tmp_path, *gpus)).document
    assert document["meters"][0] == {"name": "NVML", "readable": True, "why_not": ""}
    assert [one["watts"] for one in document["power"]["phases"]["all"]["devices"]] == pytest.approx([431, 75], rel=0.02)
    assert document["power"]["devices"][0]["limit_w"] == 700


def test_ctrl_c_shows_what_was_read_until_then(tmp_path: Path) -> None:
    variables = environment(tmp_path) | fake(tmp_path, nvml_fake.gpu(rows=[BUSY]))
    process = subprocess.Popen(
        [*COMMAND, "power", "--for", "60s"],
        cwd=tmp_path,
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not psutil.Process(process.pid).children():  # until it samples
        time.sleep(0.05)
    time.sleep(2)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "431 W" in out
    assert "Traceback" not in err


def smi(file: Path, watts: int = 300, clock: int = 1980) -> Path:
    at = datetime.now(UTC).timestamp()
    rows = [
        f"{datetime.fromtimestamp(at + i / 10, UTC):%Y/%m/%d %H:%M:%S.%f}, 0, {watts} W, {clock} MHz, 99 %"
        for i in range(50)
    ]
    file.write_text("timestamp, index, power.draw [W], clocks.sm [MHz], utilization.gpu [%]\n" + "\n".join(rows) + "\n")
    return file


def test_files_by_themselves_are_told_apart_by_their_clocks(tmp_path: Path) -> None:
    for name, clock in (("a.csv", 1980), ("b.csv", 1980), ("c.csv", 1605)):
        smi(tmp_path / name, clock=clock)
    flags = [part for name in ("a.csv", "b.csv", "c.csv") for part in ("--telemetry", name)]
    done = phasewise("power", *flags, cwd=tmp_path)
    assert done.code == 3
    assert "c.csv at 1,605 MHz (-19%)" in " ".join(done.out.split())
    document = phasewise("power", *flags, "--json", cwd=tmp_path).document
    assert document["checks"][0]["voids"] is True
    assert document["files"][2]["power"]["phases"]["busy"]["devices"][0]["sm_hz"] == 1.605e9
    assert phasewise("power", "--telemetry", "a.csv", "--telemetry", "b.csv", cwd=tmp_path).code == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--telemetry", "gone.csv"), "cannot be read"),
        (("--telemetry", "a.csv", "--zone", "Berlin"), "no time zone"),
        (("--telemetry", "a.csv", "--start", "noon"), "no time with a zone"),
        (("--telemetry", "a.csv", "--every", "often"), "--every"),
        (("--telemetry", "a.csv", "--gpus", "x"), "--gpus"),
        (("--telemetry", "a.csv", "--gpus", "7"), "it holds 0"),
        (("--telemetry", "a.csv", "--exporter", "http://127.0.0.1:9/metrics"), "--exporter reads now"),
        (("--exporter", "http://127.0.0.1:9/metrics"), "does not answer"),
        (("gone", "--telemetry", "a.csv"), "gone"),
        (("gone",), "gone is not there"),
        (("--gpus", "0"), "--gpus is about a monitor's file"),
        (("--zone", "UTC"), "--zone is about a monitor's file"),
        (("a.csv", "--limit", "300"), "--limit is about a monitor's file"),
        (("--telemetry", "a.csv", "--for", "3s"), "--for says how long to read this machine"),
        (("--telemetry", "a.csv", "--offset", "nan"), "--offset nan is no number of seconds"),
        (("a.csv",), "a trace holds no power"),
        (("--for", "ever",), "--for"),
    ],
)  # fmt: skip
def test_mistakes_are_one_sentence(tmp_path: Path, arguments: tuple[str, ...], says: str) -> None:
    smi(tmp_path / "a.csv")
    done = phasewise("power", *arguments, cwd=tmp_path)
    assert (done.code, done.out) == (2, "")
    assert says in done.err
    assert done.err.count("\n") == 1


def test_help_names_the_files_and_the_sweep(tmp_path: Path) -> None:
    done = phasewise("power", "--help", cwd=tmp_path)
    assert done.code == 0
    assert "--telemetry" in done.out
    assert phasewise("power", "show", "--help", cwd=tmp_path).out == done.out


def test_a_profile_without_power_says_why_in_its_document(tmp_path: Path) -> None:
    simulated = subprocess.Popen(
        [*COMMAND, "simulate", "--for", "60s"],
        cwd=tmp_path,
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert simulated.stdout is not None
        url = simulated.stdout.readline().split(" at ")[1].split()[0]
        done = phasewise("profile", url, "--budget", "2", "--no-power", "--json", cwd=tmp_path)
        assert done.document["power"]["phases"] is None
        assert "--no-power" in done.document["reasons"]["power.phases"]
        run = next((tmp_path / "phasewise-runs").iterdir())
        assert json.loads((run / "run.json").read_text())["power"]["missing"]["run"].startswith("it was not asked for")
        shown = phasewise("power", str(run), cwd=tmp_path)
        assert shown.code == 2
        assert "--telemetry FILE" in shown.err
    finally:
        simulated.kill()
        simulated.communicate()
