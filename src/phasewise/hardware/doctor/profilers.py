"""Nsight Systems and Nsight Compute: present, which version, and the traps that are known of it.

A trap is a row of `TRAPS`: versions as ``(first, last)``, each a release or None for an open end.
"""

from __future__ import annotations

import os
import platform
import re
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from phasewise.hardware.doctor.system import Area, program
from phasewise.record.doctor import Finding

line = Area("Profilers")

_PATIENCE = 1.5
"""Seconds that a program may take to say its version: it takes under 0.1."""

_Release = tuple[int, int]
_VERSION = re.compile(r"(\d{4})\.(\d+)(?:\.\d+)*")


class Tool(NamedTuple):
    """A profiler: its program, where its installers put it, and how to get it."""

    key: str
    name: str
    places: tuple[str, ...]
    cure: str


class Trap(NamedTuple):
    """What is known to go wrong: of which tool, in which releases, with what to do, and who says so."""

    tool: str
    first: _Release | None
    last: _Release | None
    text: str
    cure: str
    source: str
    machine: str = ""
    nvtx_from: tuple[int, ...] = ()


TOOLS = (
    Tool(
        "nsys",
        "Nsight Systems",
        ("opt/nvidia/nsight-systems*/*/bin/nsys", "usr/local/cuda*/bin/nsys", "usr/lib/nsight-systems/bin/nsys"),
        "sudo apt install nsight-systems-cli   # from NVIDIA's devtools repository",
    ),
    Tool(
        "ncu",
        "Nsight Compute",
        ("opt/nvidia/nsight-compute/*/ncu", "usr/local/cuda*/bin/ncu", "usr/lib/nsight-compute/ncu"),
        "sudo apt install nsight-compute   # newer ones: NVIDIA's repository",
    ),
)

TRAPS = (
    Trap(
        "nsys",
        (2026, 3),
        (2026, 3),
        "decode in CUDA graphs read 0.3% busy in node mode",
        "--trace=cuda-sw --cuda-graph-trace=graph",
        "NVIDIA/srt-slurm#418",
    ),
    Trap(
        "nsys",
        None,
        (2022, 3),
        "it traces CUDA graphs only node by node, which distorts decode's times",
        "install 2022.4 or newer",
        "Nsight Systems 2022.4 release notes: graph-level trace is new in it",
    ),
    Trap(
        "nsys",
        None,
        (2022, 4),
        "the ranges of Python's nvtx 0.2.13 and newer are not seen",
        "pip install nvtx==0.2.10",
        "measured: nsys 2022.4.2 with nvtx 0.2.10, 0.2.13 and 0.2.17",
        nvtx_from=(0, 2, 13),
    ),
    Trap(
        "nsys",
        None,
        None,
        "--trace=cuda crashed a GB200's workers at cudaProfilerStart",
        "--trace=cuda-sw",
        "NVIDIA-NeMo/RL#4090",
        machine="aarch64",
    ),
    Trap(
        "ncu",
        None,
        (2022, 3),
        "it has no --graph-profiling, and sees nothing inside CUDA graphs by that",
        "start the engine without graphs, or install a newer one",
        "ncu --help of 2022.3.0",
    ),
)


def look(root: Path) -> list[Finding]:
    """Each tool with its version, or where to get it; then what is known to go wrong with that version."""
    del root
    with ThreadPoolExecutor(len(TOOLS)) as pool:
        return [finding for found in pool.map(_of_tool, TOOLS) for finding in found]


def _of_tool(tool: Tool) -> list[Finding]:
    path, reached = program(tool.key, *tool.places)
    if path is None:
        return [line(tool.key, tool.name, "missing", "not found", tool.cure)]
    said = version(path)
    if said is None:
        return [line(tool.key, tool.name, "blocked", f"{path} does not say its version", f"{path} --version")]
    if reached:
        found = line(tool.key, tool.name, "ok", f"{said.text}, {path}")
    else:
        cure = f"export PATH={path.parent}:$PATH"
        found = line(tool.key, tool.name, "blocked", f"{said.text}, {path}, not on the PATH", cure)
    return [found, *(_trap(trap) for trap in traps(tool.key, said.release, platform.machine(), _nvtx()))]


class Version(NamedTuple):
    """What a tool calls itself, and year and number of that release."""

    text: str
    release: _Release


def version(path: Path) -> Version | None:
    """What ``path --version`` says; None when it says nothing that is a version, or takes too long."""
    try:
        with subprocess.Popen(
            [path, "--version"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            errors="replace",
            start_new_session=True,
        ) as child:
            try:
                out, _ = child.communicate(timeout=_PATIENCE)
            except BaseException:
                os.killpg(child.pid, signal.SIGKILL)  # the tool may be a script that waits for another program
                raise
    except (OSError, subprocess.SubprocessError):
        return None
    found = _VERSION.search(out)
    return Version(found[0], (int(found[1]), int(found[2]))) if found else None


def traps(tool: str, release: _Release, machine: str, nvtx: tuple[int, ...] | None) -> list[Trap]:
    """Those that meet this ``release`` of ``tool``, this kind of ``machine`` and the ``nvtx`` of this Python."""
    return [
        trap
        for trap in TRAPS
        if trap.tool == tool
        and (trap.first is None or release >= trap.first)
        and (trap.last is None or release <= trap.last)
        and trap.machine in ("", machine)
        and (not trap.nvtx_from or (nvtx is not None and nvtx >= trap.nvtx_from))
    ]


def _nvtx() -> tuple[int, ...] | None:
    try:
        return tuple(int(part) for part in metadata.version("nvtx").split(".")[:3])
    except (metadata.PackageNotFoundError, ValueError):
        return None


def _trap(trap: Trap) -> Finding:
    detail = f"{trap.text} ({trap.source})"
    return line(f"{trap.tool} trap", f"known of this {trap.tool}", "blocked", detail, trap.cure)
