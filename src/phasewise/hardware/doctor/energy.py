"""What measures the CPU's energy: RAPL on Linux, powermetrics on macOS.

RAPL's counter is for root alone since Linux 5.10 and its backports ("powercap: restrict energy meter to root access",
949dd0104c49, for CVE-2020-8694): opening it lets other users of the machine watch what runs on it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from phasewise.hardware.doctor.system import Area
from phasewise.record.doctor import Finding

line = Area("Energy of the CPU")

_COUNTERS = "sys/class/powercap/intel-rapl:*/energy_uj"
_OPEN = "sudo chmod a+r /sys/class/powercap/intel-rapl*/energy_uj   # until the next boot"
_POWERMETRICS = Path("/usr/bin/powermetrics")


def look(root: Path) -> list[Finding]:
    """RAPL, or Apple's powermetrics."""
    if sys.platform == "darwin":
        return [_apple()]
    files = sorted(root.glob(_COUNTERS))
    if not files:
        detail = "no such counter: a virtual machine, or a CPU without it"
        return [line("rapl", "RAPL", "missing", detail, "sudo modprobe intel_rapl_msr   # on the machine itself")]
    readable = [file for file in files if _reads(file)]
    if len(readable) < len(files):
        return [line("rapl", "RAPL", "blocked", f"{len(files)} counters, for root alone", _OPEN)]
    return [line("rapl", "RAPL", "ok", f"{len(files)} counters can be read")]


def _reads(file: Path) -> bool:
    try:
        return file.read_bytes().strip().isdigit()
    except OSError:
        return False


def _apple() -> Finding:
    if not _POWERMETRICS.exists():
        return line("apple power", "powermetrics", "missing", f"there is no {_POWERMETRICS}")
    if os.geteuid() == 0:
        return line("apple power", "powermetrics", "ok", "runs as root")
    return line("apple power", "powermetrics", "blocked", "it runs only as root", "run phasewise with sudo")
