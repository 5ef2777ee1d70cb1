"""Whether the hardware's performance counters may be read (ncu's and DCGM's), told without running a profiler.

With RmProfilingAdminOnly 1, the default, the driver lets only administrators read them: who has CAP_SYS_ADMIN, which
root in a container often has not (developer.nvidia.com/ERR_NVGPUCTRPERM). Tracing is not restricted: Nsight Systems and
PyTorch's profiler work without (developer.nvidia.com/CUPTI_ERROR_INSUFFICIENT_PRIVILEGES). Counters have one reader at
a time: DCGM is paused for ncu (docs.nvidia.com/datacenter/dcgm, dcgmi profile; Nsight Compute's Profiling Guide, FAQ).
"""

from __future__ import annotations

from pathlib import Path

from phasewise.hardware.doctor.system import CAP_SYS_ADMIN, Area, capable, listening, text
from phasewise.record.doctor import Finding, Status

line = Area("Performance counters")

_PARAMETERS = "proc/driver/nvidia/params"
_OPEN = "options nvidia NVreg_RestrictProfilingToAdminUsers=0"
_CURE = f"echo '{_OPEN}' |\n  sudo tee /etc/modprobe.d/nvidia-profiling.conf   # then reboot"
_IN_CONTAINER = "docker run --cap-add=SYS_ADMIN, or open them on the host"

_HOST_ENGINE = 5555
"""The port that nv-hostengine listens at, by its manual page."""

_SEEN = "ps -e | grep -e nv-hostengine -e dcgm   # where processes are seen"

_DCGM = ("nv-hostengine", "dcgm-exporter", "dcgmi")


def look(root: Path) -> list[Finding]:
    """Permission, and who holds them."""
    return [_permission(root), _holder()]


def _permission(root: Path) -> Finding:
    if not (root / "proc/driver/nvidia").exists():
        detail = "no /proc/driver/nvidia: no NVIDIA driver is loaded, or this is WSL"
        cure = (
            "load NVIDIA's driver; on WSL allow them in Windows: NVIDIA Control Panel, Manage GPU Performance Counters"
        )
        return line("counters", "permission", "missing", detail, cure)
    set_to = dict(row.partition(":")[::2] for row in (text(root / _PARAMETERS) or "").splitlines())
    restricted = set_to.get("RmProfilingAdminOnly", "").strip()
    status: Status = "ok"
    cure = ""
    if restricted == "0":
        detail = "every user may read them"
    elif restricted != "1":
        detail, status = f"/{_PARAMETERS} does not say", "blocked"
        cure = "ncu --query-metrics tells"
    elif capable(root, CAP_SYS_ADMIN):
        detail = "administrators only, and this process has CAP_SYS_ADMIN"
    else:
        detail = "administrators only: ncu would stop with ERR_NVGPUCTRPERM; nsys and PyTorch's traces work"
        status, cure = "blocked", _IN_CONTAINER if _contained(root) else _CURE
    return line("counters", "permission", status, detail, cure)


def _contained(root: Path) -> bool:
    return any((root / mark).exists() for mark in (".dockerenv", "run/.containerenv"))


def _holder() -> Finding:
    seen = _running()
    if seen is None:
        return line("dcgm", "DCGM", "blocked", "no process is seen here (/proc is hidden): it may hold them", _SEEN)
    if not seen and listening(_HOST_ENGINE):
        seen = [f"something at port {_HOST_ENGINE}"]
    if not seen:
        detail = "no DCGM is seen that could hold them"
        return line("dcgm", "DCGM", "ok", detail)
    detail = f"{', '.join(seen)}: it may hold the counters, and ncu would find them taken"
    cure = "dcgmi profile --pause   # and afterwards: dcgmi profile --resume"
    return line("dcgm", "DCGM", "blocked", detail, cure)


def _running() -> list[str] | None:
    """Programs of DCGM, by the names of processes that this one may see; None where it sees not even itself."""
    import psutil

    try:
        psutil.Process()
    except psutil.Error:
        return None
    names = (process.info["name"] or "" for process in psutil.process_iter(["name"]))
    return sorted({name for name in names if name in _DCGM})
