"""The card: its name, driver, clocks and versions; and what nvidia-smi says of it while something runs.

Settings are read, never changed.
"""

from __future__ import annotations

import contextlib
import csv
import importlib.metadata
import os
import platform
import shutil
import subprocess
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import torch

_FACTS = ("name", "driver_version", "vbios_version", "clocks.max.sm", "clocks.max.mem", "enforced.power.limit")
_SAMPLED = ("timestamp", "power.draw", "clocks.sm", "clocks.mem", "utilization.gpu", "temperature.gpu")
_PERIOD_MS = 100

_PACKAGES = ("torch", "triton", "transformers", "phasewise", "nvidia-cudnn-cu13", "nvidia-cublas")


def facts(device: str) -> dict[str, Any]:
    """What a reader must know of where this ran; what is not known is left out."""
    found: dict[str, Any] = {
        "device": device,
        "load": os.getloadavg(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "versions": {},
    }
    for name in _PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found["versions"][name] = importlib.metadata.version(name)
    if device != "cuda":
        return found
    properties = torch.cuda.get_device_properties(0)
    found |= {
        "name": properties.name,
        "memory_bytes": properties.total_memory,
        "multiprocessors": properties.multi_processor_count,
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),
    }
    told = _lines("-i", "0", f"--query-gpu={','.join(_FACTS)}", "--format=csv,noheader")[:1]
    found["nvidia_smi"] = {
        name: cell.strip() for line in told for name, cell in zip(_FACTS, line.split(","), strict=False)
    }
    found["clocks"] = "\n".join(_lines("-q", "-d", "CLOCK,PERFORMANCE,POWER"))
    return found


@contextlib.contextmanager
def sampled(path: Path, device: str) -> Iterator[None]:
    """Let nvidia-smi write ``path`` ten times a second while the block runs; nothing without it."""
    program = shutil.which("nvidia-smi")
    if device != "cuda" or program is None:
        yield
        return
    command = [
        program,
        "-i",
        "0",
        f"--query-gpu={','.join(_SAMPLED)}",
        "--format=csv,nounits",
        f"--loop-ms={_PERIOD_MS}",
    ]
    with path.open("wb") as out, subprocess.Popen(command, stdout=out, stderr=subprocess.DEVNULL) as child:
        try:
            yield
        finally:
            child.terminate()


def between(path: Path, begin: float, end: float) -> dict[str, float] | None:
    """Means of the samples in ``path`` from ``begin`` to ``end`` (seconds of the epoch); None without any."""
    if not path.exists():
        return None
    with path.open(encoding="utf-8", newline="") as file:
        rows = [[cell.strip() for cell in one] for one in csv.reader(file)][1:]
    inside = [one for one in rows if len(one) == len(_SAMPLED) and begin <= _moment(one[0]) <= end]
    found: dict[str, float] = {"samples": len(inside)}
    for place, name in enumerate(_SAMPLED[1:], 1):
        with contextlib.suppress(ValueError, ZeroDivisionError):
            found[name] = sum(float(one[place]) for one in inside) / len(inside)
    return found if inside else None


def _moment(text: str) -> float:
    try:
        return datetime.strptime(text, "%Y/%m/%d %H:%M:%S.%f").timestamp()
    except ValueError:  # the last line may be cut
        return 0.0


def _lines(*arguments: str) -> list[str]:
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False, timeout=30)
    return done.stdout.splitlines() if done.returncode == 0 else []


def now() -> float:
    """Seconds of the epoch, as nvidia-smi's timestamps are."""
    return time.time()
