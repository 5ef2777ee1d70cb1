"""AMD's GPUs: the kernel driver, the right to use it, and the tools that read them.

Sources: ROCm's documentation of AMD SMI (amdsmi finds GPUs only while amdgpu is loaded; /sys/module/amdgpu exists then)
and of ROCT-Thunk-Interface (/dev/kfd belongs to the group render, on older systems to video).
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

from phasewise.hardware.doctor.system import Area, program
from phasewise.record.doctor import Finding

line = Area("AMD GPUs")

_GIVE_CARDS = "docker run --device=/dev/kfd --device=/dev/dri   # in a container"


def look(root: Path) -> list[Finding]:
    """One line where there is no such GPU, the driver and its tools where there is."""
    if not (root / "sys/module/amdgpu").exists() and not (root / "dev/kfd").exists():
        return [line("amd", "driver", "missing", "amdgpu is not loaded", _GIVE_CARDS)]
    return [_driver(root / "dev/kfd"), _library(), _tool("amd-smi", "rocm-smi"), _tool("rocprofv3")]


def _driver(device: Path) -> Finding:
    if not device.exists():
        detail, cure = "amdgpu is loaded, but there is no /dev/kfd", _GIVE_CARDS
        return line("amd", "driver", "blocked", detail, cure)
    if not os.access(device, os.R_OK | os.W_OK):
        cure = "sudo usermod -a -G render,video $USER   # then log in again"
        return line("amd", "driver", "blocked", "this user may not open /dev/kfd", cure)
    return line("amd", "driver", "ok", "amdgpu is loaded, and /dev/kfd can be opened")


def _library() -> Finding:
    if importlib.util.find_spec("amdsmi"):
        return line("amdsmi", "amdsmi", "ok", "installed")
    return line("amdsmi", "amdsmi", "missing", "power and clocks cannot be read", "pip install amdsmi")


def _tool(*names: str) -> Finding:
    for name in names:
        path, reached = program(name, f"opt/rocm*/bin/{name}")
        if path:
            cure = "" if reached else f"export PATH={path.parent}:$PATH"
            detail = f"{path}{'' if reached else ', not on the PATH'}"
            return line(names[0], " or ".join(names), "ok" if reached else "blocked", detail, cure)
    return line(names[0], " or ".join(names), "missing", "not found", "install ROCm, or use its container")
