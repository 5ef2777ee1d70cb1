"""The CPU as a container, a virtual machine or a bare machine shows it, from planted files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from phasewise.hardware import host

INTEL = "processor\t: 0\nmodel name\t: Intel(R)  X\x1b[31m CPU\ncpu family\t: 6\nmodel\t\t: 143\nstepping\t: 8\n\n"


@pytest.fixture
def four_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2, 3}, raising=False)


def _write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def _cache(cpu: int, index: int, level: int, kind: str, size: str, shared: str) -> dict[str, str]:
    folder = f"sys/devices/system/cpu/cpu{cpu}/cache/index{index}"
    values = {"level": str(level), "type": kind, "size": size, "shared_cpu_list": shared}
    return {f"{folder}/{name}": value + "\n" for name, value in values.items()}


@pytest.mark.usefixtures("four_cpus")
def test_nothing_to_read_gives_the_unknown(tmp_path: Path) -> None:
    cpu = host.cpu(tmp_path)
    assert (cpu.threads, cpu.cores, cpu.cache, cpu.stepping, cpu.virtual) == (4, 4, None, "", False)
    assert cpu.name.endswith("CPU")


@pytest.mark.usefixtures("four_cpus")
def test_name_stepping_and_hypervisor(tmp_path: Path) -> None:
    cpu = host.cpu(_write(tmp_path, {"proc/cpuinfo": INTEL.replace("\n\n", "\nflags\t: fpu hypervisor sse\n\n")}))
    assert cpu.name == "Intel(R) X[31m CPU"  # nothing that a terminal would obey
    assert cpu.stepping == "6-143-8"
    assert cpu.virtual


@pytest.mark.usefixtures("four_cpus")
def test_threads_of_one_core_count_once(tmp_path: Path) -> None:
    siblings = {n: "0-1" if n < 2 else "2-3" for n in range(4)}
    files = {f"sys/devices/system/cpu/cpu{n}/topology/thread_siblings_list": f"{s}\n" for n, s in siblings.items()}
    cpu = host.cpu(_write(tmp_path, files))
    assert (cpu.threads, cpu.cores) == (4, 2)


@pytest.mark.usefixtures("four_cpus")
@pytest.mark.parametrize(
    ("files", "threads"),
    [
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "200000 100000\n"}, 2),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "150000 100000\n"}, 2),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "1000 100000\n"}, 1),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000\n"}, 4),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "900000 100000\n"}, 4),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "nonsense\n"}, 4),
        (
            {  # the group above is tighter
                "proc/self/cgroup": "0::/a/b\n",
                "sys/fs/cgroup/a/cpu.max": "100000 100000\n",
                "sys/fs/cgroup/a/b/cpu.max": "300000 100000\n",
            },
            1,
        ),
        (
            {  # version 1, path of the host seen in a container
                "proc/self/cgroup": "4:memory:/x\n3:cpu,cpuacct:/docker/abc\n",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "300000\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            },
            3,
        ),
        (
            {
                "proc/self/cgroup": "3:cpu,cpuacct:/\n",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            },
            4,
        ),
    ],
)
def test_quota_of_the_control_group(tmp_path: Path, files: dict[str, str], threads: int) -> None:
    assert host.cpu(_write(tmp_path, files)).threads == threads


@pytest.mark.usefixtures("four_cpus")
def test_memory_is_what_the_control_group_leaves(tmp_path: Path) -> None:
    files = {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "268435456\n"}
    assert host.cpu(_write(tmp_path, files)).memory == 268435456
    files = {"proc/self/cgroup": "4:memory:/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}
    assert host.cpu(_write(tmp_path, files)).memory == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.usefixtures("four_cpus")
def test_last_level_caches_are_added_up_once_each(tmp_path: Path) -> None:
    files: dict[str, str] = {}
    for n in range(4):
        pair = "0-1" if n < 2 else "2-3"
        files |= _cache(n, 0, 1, "Data", "32K", str(n)) | _cache(n, 1, 1, "Instruction", "64M", str(n))
        files |= _cache(n, 2, 2, "Unified", "1M", str(n)) | _cache(n, 3, 3, "Unified", "32768K", pair)
    assert host.cpu(_write(tmp_path, files)).cache == 2 * 32 * 2**20
    assert host.cpu(_write(tmp_path / "junk", _cache(0, 0, 1, "Data", "huge", "0"))).cache is None


def test_this_machine_can_be_read() -> None:
    cpu = host.cpu()
    assert 1 <= cpu.cores <= cpu.threads <= (os.cpu_count() or 1)
    assert cpu.memory is not None
    assert cpu.memory > 2**28
