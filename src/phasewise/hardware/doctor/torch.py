"""PyTorch in this Python: its build, and whether its profiler can see a GPU. It is not imported, which takes seconds.

The build is told by torch/version.py. The wheels for CUDA bring CUPTI as a package of its own (nvidia-cuda-cupti-*);
without it PyTorch's profiler records no kernels.
"""

from __future__ import annotations

import importlib.util
import re
from importlib import metadata
from pathlib import Path

from phasewise.hardware.doctor.system import Area
from phasewise.record.doctor import Finding

line = Area("PyTorch")

_BUILD = re.compile(r"^(cuda|hip)\s*(?::[^=]*)?=\s*['\"]([\d.]+)[^'\"]*['\"]", re.MULTILINE)


def look(root: Path) -> list[Finding]:
    """PyTorch, and its CUPTI where the build is for CUDA."""
    del root
    package = _folder()
    if package is None:
        detail = "not in the Python that runs phasewise; a server has its own"
        return [line("torch", "PyTorch", "missing", detail, "pip install 'phasewise[torch]'")]
    name = _version()
    builds = dict(_BUILD.findall((package / "version.py").read_text(encoding="utf-8", errors="replace")))
    if "cuda" in builds:
        return [line("torch", "PyTorch", "ok", f"{name}, for CUDA {builds['cuda']}"), _cupti(package)]
    if "hip" in builds:
        return [
            line("torch", "PyTorch", "ok", name),
            line("torch gpu", "PyTorch on a GPU", "ok", f"built for ROCm {builds['hip']}"),
        ]
    detail, cure = "this build knows no GPU", "pip install torch   # a build for CUDA"
    return [
        line("torch", "PyTorch", "ok", f"{name}, for the CPU"),
        line("torch gpu", "PyTorch on a GPU", "missing", detail, cure),
    ]


def _folder() -> Path | None:
    """Where torch lies with its version.py; found, never imported."""
    try:
        spec = importlib.util.find_spec("torch")
    except (ImportError, ValueError):
        return None
    folders = [Path(place) for place in (spec.submodule_search_locations or ())] if spec else []
    return next((folder for folder in folders if (folder / "version.py").is_file()), None)


def _version() -> str:
    try:
        return metadata.version("torch")
    except metadata.PackageNotFoundError:
        return "of unknown version"


def _cupti(package: Path) -> Finding:
    places = (*package.glob("lib/libcupti*"), *package.parent.glob("nvidia/*/lib/libcupti*"))
    if places:
        return line("torch gpu", "CUPTI of PyTorch", "ok", "its profiler can record kernels")
    detail = "not found beside it: its traces may hold no kernels"
    check = "python -c 'import torch; print(torch.profiler.supported_activities())'"
    return line("torch gpu", "CUPTI of PyTorch", "missing", detail, check)
