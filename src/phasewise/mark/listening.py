"""Who listens to marks: PyTorch's profiler, and tools that read NVTX ranges. Asked before anything is written.

Nothing here imports torch: a profiler of its can only run once somebody else has.
"""

from __future__ import annotations

import os
import sys
from types import ModuleType
from typing import Any, NamedTuple

SWITCH = "PHASEWISE_NVTX"
"""``1`` writes NVTX ranges though no tool is seen, ``0`` writes none though one is."""

_INJECTED = ("NVTX_INJECTION64_PATH", "NVTX_INJECTION32_PATH", "CUDA_INJECTION64_PATH", "NSYS_PROFILING_SESSION_ID")
"""NVTX loads a tool from the first two by itself (nvtxInit.h); NVIDIA's profilers also set the others."""

_INJECTED_AMD = ("ROCP_TOOL_LIBRARIES",)
"""By which ROCprofiler-SDK loads a tool; PyTorch's build for ROCm writes NVTX ranges as ROCTX."""

_PRELOADED = ("nsys", "nsight", "toolsinjection", "rocprof", "roctx", "roctracer")

_DAEMON = "KINETO_USE_DAEMON"
"""With it PyTorch's profiler is started from outside of Python, which nothing in Python is told."""


class Nvtx(NamedTuple):
    """How to write NVTX ranges: ``push`` and ``pop`` nest on a thread, ``start`` and ``end`` may overlap."""

    push: Any
    pop: Any
    start: Any
    end: Any


def nvtx_tool(environ: dict[str, str] | os._Environ[str]) -> bool:
    """Whether a tool that reads NVTX ranges was attached to this process when it began."""
    if (said := environ.get(SWITCH)) in ("0", "1"):
        return said == "1"
    preloaded = environ.get("LD_PRELOAD", "").lower()
    return any(environ.get(key) for key in (*_INJECTED, *_INJECTED_AMD)) or any(
        word in preloaded for word in _PRELOADED
    )


# Read once: a tool attaches before the process begins, and asking the environment costs a microsecond.
_tool = nvtx_tool(os.environ)
_daemon = bool(os.environ.get(_DAEMON))
_nvtx: Nvtx | None = None


def torch_listens() -> bool:
    """Whether a profiler of PyTorch's runs: on this thread, or on all."""
    profiler = sys.modules.get("torch.autograd.profiler")
    if profiler is None:
        return False
    # The flag is Python's, for all threads; it is there in PyTorch 1.13 and newer.
    return getattr(profiler, "_is_profiler_enabled", False) or _daemon


def nvtx() -> Nvtx | None:
    """How to write NVTX ranges; None when nobody reads them, or neither PyTorch with CUDA nor nvtx is installed."""
    global _nvtx
    if _tool and _nvtx is None:
        _nvtx = _by_torch() or _by_nvtx()
    return _nvtx


def _by_torch() -> Nvtx | None:
    # PyTorch's calls pass the text as it is. The package nvtx registers each text for good.
    module: Any = sys.modules.get("torch.cuda.nvtx")
    # A build without CUDA has a stub in place of the bindings, all of whose calls fail.
    if module is None or not isinstance(getattr(module, "_nvtx", None), ModuleType):
        return None
    return Nvtx(module.range_push, module.range_pop, module.range_start, module.range_end)


def _by_nvtx() -> Nvtx | None:
    try:
        import nvtx as module
    except ImportError:
        return None
    return Nvtx(module.push_range, module.pop_range, module.start_range, module.end_range)
