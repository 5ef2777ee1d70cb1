"""The CPU: what this process may use of it, how it is clocked, and who else is on it."""

from __future__ import annotations

import os
from pathlib import Path

from phasewise.hardware import host
from phasewise.hardware.doctor.system import Area, text
from phasewise.record.doctor import Finding, Status

line = Area("CPU")

BUSY = 0.25
"""Load over usable threads above which others take part in every time: an idle machine has a few hundredths."""


def look(root: Path) -> list[Finding]:
    """Cores, governor, load."""
    seen = host.cpu(root)
    virtual = ", a virtual machine: times vary with its neighbours" if seen.virtual else ""
    detail = f"{seen.threads} threads on {seen.cores} cores of {seen.name} are usable{virtual}"
    cores = line("cpu", "cores", "ok", detail)
    return [cores, _governor(root), *_load(seen.threads)]


def _governor(root: Path) -> Finding:
    files = root.glob("sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor")
    names = sorted({name for file in files if (name := text(file))})
    status: Status = "ok"
    cure = ""
    if not names:
        status, detail = "missing", "no cpufreq here: the host decides, or there is none"
        cure = "on the host: sudo cpupower frequency-set -g performance"
    elif names == ["performance"]:
        detail = "performance"
    else:
        status, detail = "missing", f"{', '.join(names)}: clocks rise only after load has come"
        cure = "sudo cpupower frequency-set -g performance"
    return line("governor", "governor", status, detail, cure)


def _load(threads: int) -> list[Finding]:
    try:
        load = os.getloadavg()[0]
    except (OSError, AttributeError):
        return []
    detail = f"{load:.2f} on {threads} usable threads over the last minute"
    status: Status = "blocked" if load > BUSY * threads else "ok"
    cure = "ps -eo pcpu,pid,args --sort=-pcpu | head" if status == "blocked" else ""
    if cure:
        detail += ": others take part in every time"
    return [line("load", "load", status, detail, cure)]
