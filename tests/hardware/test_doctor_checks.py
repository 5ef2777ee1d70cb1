"""Doctor's checks of the rest of the machine, on planted files, programs and servers."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import socket
import sys
import time
from pathlib import Path

import psutil
import pytest

from phasewise.hardware.doctor import (
    amd,
    container,
    counters,
    cpu,
    energy,
    extras,
    kernel,
    profilers,
    servers,
    space,
    torch,
)
from phasewise.record.doctor import Finding

ADMIN, NOBODY = 1 << 21, 0


def put(root: Path, **files: str) -> Path:
    """Files by their path, ``__`` for a slash."""
    for name, text in files.items():
        file = root / name.replace("__", "/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return root


def capable(root: Path, bits: int) -> Path:
    return put(root, proc__self__status=f"Name:\tpython\nCapEff:\t{bits:016x}\n")


def of(found: list[Finding], key: str) -> Finding:
    (one,) = [finding for finding in found if finding.key == key]
    return one


# --- counters


def parameters(root: Path, restricted: str) -> Path:
    return put(root, proc__driver__nvidia__params=f"ResmanDebugLevel: 4294967295\n{restricted}MemoryPoolSize: 0\n")


@pytest.mark.parametrize(
    ("restricted", "bits", "status", "words"),
    [
        ("RmProfilingAdminOnly: 0\n", NOBODY, "ok", "every user"),
        ("RmProfilingAdminOnly: 1\n", ADMIN, "ok", "CAP_SYS_ADMIN"),
        ("RmProfilingAdminOnly: 1\n", NOBODY, "blocked", "ERR_NVGPUCTRPERM"),
        ("", NOBODY, "blocked", "does not say"),
    ],
)
def test_who_may_read_the_counters(tmp_path: Path, restricted: str, bits: int, status: str, words: str) -> None:
    line = of(counters.look(capable(parameters(tmp_path, restricted), bits)), "counters")
    assert (line.status, words in line.detail) == (status, True)
    assert bool(line.cure) == (status != "ok")


def hidden(*_: object) -> None:
    """What psutil does where /proc is another, as in a sandbox."""
    raise psutil.NoSuchProcess(os.getpid())


def test_hidden_processes_are_no_proof_that_nobody_holds_the_counters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(psutil, "Process", hidden)
    line = of(counters.look(tmp_path), "dcgm")
    assert (line.status, "/proc" in line.detail, bool(line.cure)) == ("blocked", True, True)


def test_memory_that_is_not_told_is_missing_and_the_disk_is_told_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def untold() -> None:
        raise FileNotFoundError(2, "No such file or directory", "/proc/meminfo")

    monkeypatch.setattr(psutil, "virtual_memory", untold)
    found = space.look(tmp_path)
    assert of(found, "memory").status == "missing"
    assert any(finding.key == "disk" for finding in found)


def test_a_tool_that_hangs_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """nsys may be a script: what that waits for is ended with it."""
    tool = tmp_path / "nsys"
    tool.write_text(f"#!/bin/sh\nsh -c 'echo $$ > {tmp_path}/pid; exec sleep 60'\n", encoding="utf-8")
    tool.chmod(0o755)
    monkeypatch.setattr(profilers, "_PATIENCE", 0.5)
    assert profilers.version(tool) is None
    left = int((tmp_path / "pid").read_text())
    for _ in range(100):
        if not psutil.pid_exists(left) or psutil.Process(left).status() == psutil.STATUS_ZOMBIE:
            return
        time.sleep(0.02)
    raise AssertionError(left)


def test_the_cure_of_the_counters_depends_on_where_one_is(tmp_path: Path) -> None:
    root = capable(parameters(tmp_path, "RmProfilingAdminOnly: 1\n"), NOBODY)
    assert "NVreg_RestrictProfilingToAdminUsers=0" in of(counters.look(root), "counters").cure
    put(root, **{".dockerenv": ""})
    assert "--cap-add=SYS_ADMIN" in of(counters.look(root), "counters").cure


def test_without_a_driver_there_are_no_counters(tmp_path: Path) -> None:
    assert of(counters.look(tmp_path), "counters").status == "missing"


def test_a_host_engine_of_dcgm_is_seen_at_its_port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        monkeypatch.setattr(counters, "_HOST_ENGINE", listener.getsockname()[1])
        monkeypatch.setattr(counters, "_running", list)
        line = of(counters.look(tmp_path), "dcgm")
    assert line.status == "blocked"
    assert "dcgmi profile --pause" in line.cure
    assert of(counters.look(tmp_path), "dcgm").status == "ok"


# --- profilers


def tool(folder: Path, name: str, script: str) -> Path:
    file = folder / name
    file.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    file.chmod(0o755)
    return file


def test_versions_and_the_traps_of_those_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool(tmp_path, "nsys", "echo 'NVIDIA Nsight Systems version 2026.3.1.157-12345v0'")
    tool(tmp_path, "ncu", "echo 'Copyright (c) 2018-2022'; echo 'Version 2022.3.0.0 (build 31729285)'")
    monkeypatch.setenv("PATH", str(tmp_path))
    found = profilers.look(tmp_path)
    assert of(found, "nsys").status == of(found, "ncu").status == "ok"
    assert of(found, "nsys").detail.startswith("2026.3.1.157, ")
    assert of(found, "ncu").detail.startswith("2022.3.0.0, ")
    assert "cuda-sw" in next(line for line in found if line.key == "nsys trap").cure
    assert "--graph-profiling" in of(found, "ncu trap").detail


def test_a_tool_that_says_nothing_hangs_or_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool(tmp_path, "nsys", "exec sleep 60")
    monkeypatch.setattr(profilers, "_PATIENCE", 0.2)
    monkeypatch.setattr(profilers, "TOOLS", tuple(one._replace(places=()) for one in profilers.TOOLS))
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    found = profilers.look(tmp_path)
    assert of(found, "nsys").status == "blocked"
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    found = profilers.look(tmp_path)
    assert {line.status for line in found} == {"missing"}
    assert all(line.cure for line in found)


@pytest.mark.parametrize(
    ("tool", "release", "machine", "nvtx", "count"),
    [
        ("nsys", (2026, 3), "x86_64", None, 1),
        ("nsys", (2026, 4), "x86_64", (0, 2, 17), 0),
        ("nsys", (2025, 1), "aarch64", None, 1),
        ("nsys", (2022, 4), "x86_64", (0, 2, 13), 1),
        ("nsys", (2022, 4), "x86_64", (0, 2, 10), 0),
        ("nsys", (2022, 3), "x86_64", None, 1),
        ("ncu", (2022, 3), "x86_64", None, 1),
        ("ncu", (2025, 1), "x86_64", None, 0),
    ],
)
def test_a_trap_meets_only_its_versions(
    tool: str, release: tuple[int, int], machine: str, nvtx: tuple[int, ...] | None, count: int
) -> None:
    assert len(profilers.traps(tool, release, machine, nvtx)) == count


# --- kernel, energy, cpu, container, amd


@pytest.mark.parametrize(
    ("level", "bits", "status"),
    [("4", NOBODY, "blocked"), ("4", 1 << 38, "ok"), ("4", ADMIN, "ok"), ("2", NOBODY, "ok")],
)
def test_perf_events(tmp_path: Path, level: str, bits: int, status: str) -> None:
    root = capable(put(tmp_path, proc__sys__kernel__perf_event_paranoid=level), bits)
    line = of(kernel.look(root), "perf")
    assert line.status == status
    assert bool(line.cure) == (status == "blocked")


@pytest.mark.parametrize(("scope", "bits", "status"), [("0", 0, "ok"), ("1", 0, "blocked"), ("1", 1 << 19, "ok")])
def test_attaching(tmp_path: Path, scope: str, bits: int, status: str) -> None:
    root = capable(put(tmp_path, proc__sys__kernel__yama__ptrace_scope=scope), bits)
    assert of(kernel.look(root), "ptrace").status == status


def test_a_slow_clock_source_is_told(tmp_path: Path) -> None:
    where = "sys__devices__system__clocksource__clocksource0__current_clocksource"
    assert of(kernel.look(put(tmp_path, **{where: "hpet"})), "clock").status == "blocked"
    assert of(kernel.look(put(tmp_path, **{where: "tsc"})), "clock").status == "ok"


def test_rapl_is_absent_or_there(tmp_path: Path) -> None:
    assert of(energy.look(tmp_path), "rapl").status == "missing"
    root = put(tmp_path, **{"sys__class__powercap__intel-rapl:0__energy_uj": "123456\n"})
    assert of(energy.look(root), "rapl").status == "ok"


def test_rapl_for_root_alone_is_blocked_with_the_cure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = put(tmp_path, **{"sys__class__powercap__intel-rapl:0__energy_uj": "1"})
    monkeypatch.setattr(energy, "_reads", lambda file: False)
    line = of(energy.look(root), "rapl")
    assert line.status == "blocked"
    assert "chmod a+r /sys/class/powercap/intel-rapl*/energy_uj" in line.cure


@pytest.mark.parametrize(("name", "status"), [("performance", "ok"), ("powersave", "missing")])
def test_governor(tmp_path: Path, name: str, status: str) -> None:
    root = put(tmp_path, sys__devices__system__cpu__cpu0__cpufreq__scaling_governor=name)
    assert of(cpu.look(root), "governor").status == status


@pytest.mark.parametrize(("load", "status"), [(0.01, "ok"), (500.0, "blocked")])
def test_a_busy_machine_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, load: float, status: str) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (load, load, load))
    assert of(cpu.look(tmp_path), "load").status == status


def test_a_container_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert of(container.look(tmp_path), "container").detail == "none is seen"
    root = put(tmp_path, proc__self__cgroup="0::/kubepods/besteffort/pod1\n")
    assert "Kubernetes" in of(container.look(root), "container").detail


def test_little_shared_memory_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "dev/shm").mkdir(parents=True)
    monkeypatch.setattr(container, "LEAST_SHARED", 1 << 60)
    assert of(container.look(tmp_path), "shm").status == "blocked"


def test_amd_is_looked_at_only_where_its_driver_is(tmp_path: Path) -> None:
    (line,) = amd.look(tmp_path)
    assert (line.key, line.status) == ("amd", "missing")
    (tmp_path / "sys/module/amdgpu").mkdir(parents=True)
    found = amd.look(tmp_path)
    assert of(found, "amd").status == "blocked"
    assert {line.key for line in found} == {"amd", "amdsmi", "amd-smi", "rocprofv3"}
    put(tmp_path, dev__kfd="")
    assert of(amd.look(tmp_path), "amd").status == "ok"


# --- Python


def torch_of(monkeypatch: pytest.MonkeyPatch, folder: Path, version: str) -> list[Finding]:
    """What is said of a torch whose version.py is ``version``."""
    put(folder, torch__version__py="").joinpath("torch/version/py").unlink()
    (folder / "torch/version").rmdir()
    (folder / "torch/version.py").write_text(version, encoding="utf-8")
    spec = importlib.machinery.ModuleSpec("torch", None, is_package=True)
    spec.submodule_search_locations = [str(folder / "torch")]
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec if name == "torch" else None)
    return torch.look(folder)


@pytest.mark.parametrize(
    ("version", "status", "words"),
    [
        ("__version__ = '2.9.0+cpu'\ncuda: Optional[str] = None\nhip: Optional[str] = None\n", "missing", "no GPU"),
        ("cuda: Optional[str] = '12.8'\nhip: Optional[str] = None\n", "missing", "no kernels"),
        ("cuda = None\nhip = '6.4.43482'\n", "ok", "ROCm 6.4.43482"),
    ],
)
def test_the_build_of_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, status: str, words: str
) -> None:
    line = of(torch_of(monkeypatch, tmp_path, version), "torch gpu")
    assert (line.status, words in line.detail) == (status, True)


def test_cupti_beside_torch_is_found_and_torch_is_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, **{"nvidia__cuda_cupti__lib__libcupti.so.12": ""})
    before = "torch" in sys.modules
    assert of(torch_of(monkeypatch, tmp_path, "cuda = '12.8'\n"), "torch gpu").status == "ok"
    assert ("torch" in sys.modules) == before


def test_extras_are_those_of_the_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = [
        "numpy>=2",
        'nvidia-ml-py>=12.575; extra == "nvidia"',
        "ray[client]>=2.50 ; extra == 'ray'",
        "a>=1;extra=='old'",
    ]
    installed = {"nvidia-ml-py": "13.615.71", "a": "0.9"}

    def version(name: str) -> str:
        if name not in installed:
            raise extras.metadata.PackageNotFoundError(name)
        return installed[name]

    monkeypatch.setattr(extras.metadata, "requires", lambda name: wanted)
    monkeypatch.setattr(extras.metadata, "version", version)
    found = {line.key: line for line in extras.look(Path("/"))}
    assert {key: found[key].status for key in ("extra nvidia", "extra ray", "extra old")} == {
        "extra nvidia": "ok",
        "extra ray": "missing",
        "extra old": "blocked",
    }
    assert found["extra ray"].cure == "pip install 'phasewise[ray]'"


@pytest.mark.parametrize(
    ("newer", "older"), [("2.10", "2.9"), ("2.13.0+cpu", "2.12"), ("1.0.1", "1.0"), ("2026.10.11549", "2026.9")]
)
def test_releases_are_compared_as_numbers(newer: str, older: str) -> None:
    assert extras.numbers(newer) > extras.numbers(older)
    assert extras.numbers("2.0.0") == extras.numbers("2")


def test_a_server_that_listens_is_named_and_gets_no_request(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        monkeypatch.setattr(servers, "PORTS", {port: "an engine"})
        (line,) = servers.look(Path("/"))
        listener.settimeout(2)
        connection, _ = listener.accept()
        with connection:
            assert connection.recv(1) == b""
    assert (line.key, f"http://127.0.0.1:{port}" in line.detail) == (f"port {port}", True)
    (line,) = servers.look(Path("/"))
    assert (line.key, line.status) == ("free ports", "ok")
