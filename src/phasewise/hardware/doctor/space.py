"""Memory and disk: what a model and a trace need."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from phasewise.hardware import host
from phasewise.hardware.doctor.system import Area
from phasewise.record.doctor import Finding

line = Area("Memory and disk")

LEAST_MEMORY, LEAST_DISK = 1 << 30, 2 << 30
"""Bytes free under which a line is blocked: the bundled model runs in 0.3 GB, vLLM on a CPU with 135 M parameters in 4;
a trace of some steps is 1 to 100 MB without stacks, and profilers keep a raw copy until they are done."""


def look(root: Path) -> list[Finding]:
    """Memory that is free, and room where runs and profilers write."""
    return [_memory(root), *_disks()]


def _memory(root: Path) -> Finding:
    import psutil

    usable = host.cpu(root).memory
    try:
        free = psutil.virtual_memory().available
    except OSError:
        return line("memory", "memory", "missing", "the system does not say how much is free (/proc is hidden)")
    free = min(free, usable) if usable else free
    detail = f"{free / 2**30:.1f} GiB free{f' of {usable / 2**30:.1f} GiB usable' if usable else ''}"
    if free < LEAST_MEMORY:
        cure = "ps -eo rss,pid,args --sort=-rss | head"
        return line("memory", "memory", "blocked", detail, cure)
    return line("memory", "memory", "ok", detail)


def _disks() -> list[Finding]:
    """The folder that runs go to and the one that profilers keep their raw data in; once when they are one disk."""
    places = {"where runs go": Path.cwd(), "where profilers work": Path(tempfile.gettempdir())}
    found: list[Finding] = []
    seen: set[int] = set()
    for what, folder in places.items():
        device = folder.stat().st_dev
        if device not in seen:
            found.append(_disk(what, folder))
        seen.add(device)
    return found


def _disk(what: str, folder: Path) -> Finding:
    free = shutil.disk_usage(folder).free
    detail = f"{free / 2**30:.1f} GiB free in {folder}"
    temporary = folder == Path(tempfile.gettempdir())
    elsewhere = "export TMPDIR=/a/larger/disk" if temporary else "phasewise ... --out /a/larger/disk"
    if not os.access(folder, os.W_OK):
        detail = f"{folder} cannot be written to"
        return line("disk", what, "blocked", detail, elsewhere)
    if free < LEAST_DISK:
        return line("disk", what, "blocked", detail, elsewhere)
    return line("disk", what, "ok", detail)
