"""Sampling in a process of its own: that it reads, ends, and fails nobody."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

import nvml_fake
from phasewise.hardware.power.sampler import Sampler

ROW = {
    "t": 0.0, "power_w": 300.0, "sm_mhz": 1980, "mem_mhz": 2619, "temperature_c": 60, "gpu_pct": 100, "mem_pct": 50,
    "reasons": 0,
}  # fmt: skip


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """NVML for the processes that are started; ``PYTHONPATH`` puts the fake before nvidia-ml-py."""

    def plant(*gpus: dict[str, Any]) -> None:
        nvml_fake.write(tmp_path / "state.json", nvml_fake.state(*gpus))
        for name, value in nvml_fake.environment(tmp_path / "state.json").items():
            monkeypatch.setenv(name, value)

    return plant


def children() -> list[psutil.Process]:
    return [
        one for one in psutil.Process().children() if "phasewise.hardware.power.sampling" in " ".join(one.cmdline())
    ]


def test_it_reads_until_it_is_stopped_and_leaves_no_process(planted: Any) -> None:
    planted(nvml_fake.gpu(rows=[ROW]), nvml_fake.gpu(rows=[ROW | {"power_w": 75.0}], uuid="GPU-1"))
    with Sampler(every_s=0.02) as sampler:
        assert [device.uuid[-1] for device in sampler.devices] == ["0", "1"]
        time.sleep(0.5)
        assert sampler.so_far()
        found = sampler.stop()
    assert not children()
    assert found.ended == ""
    own = [one for one in found.readings if one.device == 0]
    assert {one.watts for one in own} == {300.0}
    assert {one.watts for one in found.readings if one.device == 1} == {75.0}
    assert len(own) >= 5
    at = np.array([one.at for one in own])
    assert (np.diff(at) > 0).all()
    joules = [one.joules for one in own if one.joules is not None]
    # The counter of the fake counts 300 W, by the same clock.
    assert (joules[-1] - joules[0]) / (at[-1] - at[0]) == pytest.approx(300, rel=0.05)


def test_without_a_meter_it_says_why_and_no_process_stays(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "pynvml.py").write_text("raise ImportError('none here')\n")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    with Sampler() as sampler:
        if sampler.devices:
            pytest.skip("this machine has a meter of another kind")
        found = sampler.stop()
    assert "pip install" in found.why_not["NVML"]
    assert not children()


def test_one_that_crashes_keeps_what_it_read_and_says_so(planted: Any) -> None:
    planted(nvml_fake.gpu(rows=[ROW]))
    with Sampler(every_s=0.02) as sampler:
        assert sampler.devices
        time.sleep(0.3)
        (child,) = children()
        os.kill(child.pid, signal.SIGKILL)
        child.wait(5)
        found = sampler.stop()
    assert found.readings
    assert "ended by itself" in found.ended


def test_one_whose_meter_breaks_says_what_broke(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "pynvml.py").write_text("raise RuntimeError('broken in a way of its own')\n")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    with Sampler() as sampler:
        assert sampler.devices == ()
        assert "broken in a way of its own" in sampler.stop().why_not["sampling"]


def test_it_ends_when_the_one_that_started_it_dies(planted: Any, tmp_path: Path) -> None:
    planted(nvml_fake.gpu(rows=[ROW]))
    reads, writes = os.pipe()
    parent = os.fork()
    if parent == 0:  # a process that starts a sampler and dies without a word
        os.close(reads)
        sampler = Sampler()
        assert sampler.devices
        os.write(writes, str(children()[0].pid).encode())
        os._exit(0)
    os.close(writes)
    with os.fdopen(reads) as told:
        pid = int(told.read())
    os.waitpid(parent, 0)
    for _ in range(100):
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return
        time.sleep(0.05)
    raise AssertionError("the sampler outlived its parent")
