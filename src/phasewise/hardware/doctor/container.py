"""Containers and control groups: what they leave of the machine.

Workers of an engine talk through /dev/shm, of which Docker gives 64 MB by default; vLLM's documentation of its image
asks for --ipc=host or --shm-size.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from phasewise.hardware.doctor.system import Area, text
from phasewise.record.doctor import Finding

line = Area("Container")

_MARKS = {".dockerenv": "Docker", "run/.containerenv": "Podman"}
_GROUPS = {"kubepods": "Kubernetes", "docker": "Docker", "lxc": "LXC", "containerd": "containerd"}

LEAST_SHARED = 1 << 30
"""Bytes of /dev/shm under which the workers of a tensor-parallel engine may find too little."""


def look(root: Path) -> list[Finding]:
    """Whether this is one, and its shared memory. Limits of CPU and memory show in their own lines."""
    kind = _kind(root)
    if kind is None:
        detail = "none is seen"
        return [line("container", "container", "ok", detail), *_shared(root)]
    detail = f"{kind}: processes of the host, DCGM among them, are not seen from here"
    return [line("container", "container", "ok", detail), *_shared(root)]


def _kind(root: Path) -> str | None:
    for mark, name in _MARKS.items():
        if (root / mark).exists():
            return name
    if os.environ.get("KUBERNETES_SERVICE_HOST"):
        return "Kubernetes"
    groups = text(root / "proc/self/cgroup") or ""
    return next((name for word, name in _GROUPS.items() if word in groups), None)


def _shared(root: Path) -> list[Finding]:
    folder = root / "dev/shm"
    if not folder.is_dir():
        return []
    room = shutil.disk_usage(folder).total
    detail = f"{room / 2**30:.1f} GiB of /dev/shm"
    if room < LEAST_SHARED:
        detail += ": workers of a tensor-parallel engine may fail to start"
        cure = "docker run --ipc=host, or --shm-size=8g"
        return [line("shm", "shared memory", "blocked", detail, cure)]
    return [line("shm", "shared memory", "ok", detail)]
