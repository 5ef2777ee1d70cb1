"""What this machine says of its CPU: name, usable cores, caches, memory. Nothing fails here: the unknown is None."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterator
from math import ceil
from pathlib import Path
from typing import NamedTuple

from phasewise.units import parse

_UNLIMITED = 2**62
"""cgroup v1 writes "no limit" as a number just below 2**63."""


class Cpu(NamedTuple):
    """The CPU as this process may use it.

    Attributes:
        name: its brand, or its architecture when it says no more.
        stepping: what tells apart CPUs of one name (family, model, stepping), empty when unknown.
        threads: hardware threads that this process may run on, by affinity and cgroup quota.
        cores: physical cores under those threads.
        cache: bytes of the last-level caches that those threads reach, all together; None when unknown.
        memory: bytes that this process may use, by installed memory and cgroup limit; None when unknown.
        virtual: True when a hypervisor is seen.
    """

    name: str
    stepping: str
    threads: int
    cores: int
    cache: int | None
    memory: int | None
    virtual: bool


def cpu(root: Path = Path("/")) -> Cpu:
    """Read the CPU; ``root`` stands in for the file system's root in tests."""
    allowed = _allowed()
    quota = _quota(root)
    threads = max(1, min(len(allowed), ceil(quota) if quota else len(allowed)))
    facts = _cpuinfo(root)
    siblings = {_text(_cpu_file(root, n, "topology/thread_siblings_list")) or str(n) for n in allowed}
    return Cpu(
        name=_name(facts),
        stepping="-".join(facts[key] for key in ("cpu family", "model", "stepping", "CPU part") if key in facts),
        threads=threads,
        cores=min(threads, len(siblings)),
        cache=_last_level_cache(root, allowed),
        memory=_memory(root),
        virtual="hypervisor" in facts.get("flags", "").split(),
    )


def _allowed() -> set[int]:
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def _cpuinfo(root: Path) -> dict[str, str]:
    """Key and value of each line of the first processor in /proc/cpuinfo; empty where there is no such file."""
    first = (_text(root / "proc/cpuinfo") or "").split("\n\n")[0]
    pairs = (line.split(":", 1) for line in first.splitlines() if ":" in line)
    return {key.strip(): value.strip() for key, value in pairs}


def _name(facts: dict[str, str]) -> str:
    name = facts.get("model name") or facts.get("Model") or _mac_brand() or ""
    name = "".join(c for c in name if c.isprintable()).strip()
    return re.sub(r"\s+", " ", name) or f"{platform.machine() or 'unknown'} CPU"


def _mac_brand() -> str | None:
    """The brand that macOS knows; its ``platform.processor()`` is only "arm"."""
    if platform.system() != "Darwin":
        return None
    import subprocess

    ask = ["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"]
    try:
        return subprocess.run(ask, capture_output=True, text=True, timeout=5, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


def _quota(root: Path) -> float | None:
    """CPUs' worth of time that the tightest cgroup allows; None when there is no limit."""
    found = [_share(words) for words in map(str.split, _limits(root, "cpu.max"))]
    for period, quota in zip(
        _limits(root, "cpu.cfs_period_us", "cpu"), _limits(root, "cpu.cfs_quota_us", "cpu"), strict=False
    ):
        found.append(_share([quota, period]))
    return min((share for share in found if share), default=None)


def _share(words: list[str]) -> float | None:
    """Quota over period; None for "max", for -1 and for nonsense."""
    try:
        quota, period = float(words[0]), float(words[1])
    except (ValueError, IndexError):
        return None
    return quota / period if quota > 0 and period > 0 else None


def _memory(root: Path) -> int | None:
    limits = [int(text) for text in _limits(root, "memory.max") if text.isdigit()]
    limits += [int(text) for text in _limits(root, "memory.limit_in_bytes", "memory") if text.isdigit()]
    limits += [total for total in [_installed()] if total]
    return min((limit for limit in limits if 0 < limit < _UNLIMITED), default=None)


def _installed() -> int | None:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return None


def _limits(root: Path, name: str, controller: str = "") -> Iterator[str]:
    """The contents of cgroup file ``name`` in this process's group and in every group above it.

    With ``controller`` in the hierarchy of cgroup v1, without in that of v2.
    """
    mount = root / "sys/fs/cgroup" / controller
    for line in (_text(root / "proc/self/cgroup") or "").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if (controller in controllers.split(",")) if controller else number == "0":
            group = mount / path.lstrip("/")
            for folder in (group, *group.parents):
                text = _text(folder / name)
                if text is not None:
                    yield text
                if folder == mount:
                    break


def _last_level_cache(root: Path, allowed: set[int]) -> int | None:
    """Bytes of the distinct caches of the highest level that the CPUs in ``allowed`` reach."""
    caches: dict[tuple[int, str], int] = {}
    for number in allowed:
        for folder in _cpu_file(root, number, "cache").glob("index[0-9]*"):
            level, size, kind = (_text(folder / part) for part in ("level", "size", "type"))
            bytes_ = _size(size or "")
            if level and level.isdigit() and bytes_ and kind != "Instruction":
                caches[int(level), _text(folder / "shared_cpu_list") or str(number)] = bytes_
    highest = max((level for level, _ in caches), default=None)
    return sum(size for (level, _), size in caches.items() if level == highest) or None


def _size(text: str) -> int | None:
    """Bytes of what sysfs writes as ``32768K``, by which it means KiB."""
    if not re.fullmatch(r"[1-9]\d*[KMG]?", text):
        return None
    return int(parse(text + ("iB" if text[-1] in "KMG" else "B"), "B"))


def _cpu_file(root: Path, number: int, name: str) -> Path:
    return root / f"sys/devices/system/cpu/cpu{number}" / name


def _text(file: Path) -> str | None:
    try:
        return file.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None
