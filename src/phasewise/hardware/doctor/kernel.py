"""What the kernel lets this user see, and the clock that times are taken with.

Sources: perf_event_paranoid up to 2 is what Nsight Systems needs for CPU samples and scheduling (its Installation
Guide, "Use of Linux Perf"), and CAP_PERFMON or CAP_SYS_ADMIN passes it (Linux, admin-guide/perf-security); ptrace_scope
is of Yama (Linux, admin-guide/LSM/Yama). The recipes of `capture --print` need neither: they leave CPU sampling off.
"""

from __future__ import annotations

import sys
import time
from itertools import pairwise
from pathlib import Path

from phasewise.hardware.doctor.system import CAP_PERFMON, CAP_SYS_ADMIN, CAP_SYS_PTRACE, Area, capable, number, text
from phasewise.record.doctor import Finding, Status
from phasewise.units import show

line = Area("Kernel")

_MOST = 2
_SLOW = ("hpet", "acpi_pm", "jiffies")
"""Clock sources of which each reading costs a microsecond or more, where the TSC costs some tens of nanoseconds."""


def look(root: Path) -> list[Finding]:
    """Perf events, ptrace, clock; on Linux."""
    return [*([_perf(root), _ptrace(root)] if sys.platform.startswith("linux") else []), _clock(root)]


def _perf(root: Path) -> Finding:
    level = number(root / "proc/sys/kernel/perf_event_paranoid")
    passes = capable(root, CAP_PERFMON) or capable(root, CAP_SYS_ADMIN)
    status: Status = "ok"
    cure = ""
    if level is None:
        detail, status = "the kernel has none: no CPU samples beside a trace", "missing"
    elif level <= _MOST or passes:
        detail = f"perf_event_paranoid {level}{'' if level <= _MOST else ', which this process may pass'}"
    else:
        detail, status = f"perf_event_paranoid {level}: no CPU samples beside a trace", "blocked"
        cure = f"sudo sysctl kernel.perf_event_paranoid={_MOST}"
    return line("perf", "perf events", status, detail, cure)


def _ptrace(root: Path) -> Finding:
    scope = number(root / "proc/sys/kernel/yama/ptrace_scope")
    status: Status = "ok"
    cure = ""
    if not scope:
        detail = "ptrace_scope 0" if scope == 0 else "not restricted by Yama"
    elif capable(root, CAP_SYS_PTRACE) and scope < 3:
        detail = f"ptrace_scope {scope}, which this process may pass"
    else:
        detail, status = f"ptrace_scope {scope}: py-spy and gdb cannot attach to a server that runs", "blocked"
        cure = "sudo sysctl kernel.yama.ptrace_scope=0" if scope < 3 else "reboot: scope 3 cannot be taken back"
    return line("ptrace", "attaching", status, detail, cure)


def _clock(root: Path) -> Finding:
    source = text(root / "sys/devices/system/clocksource/clocksource0/current_clocksource")
    tick = time.get_clock_info("perf_counter").resolution
    times = [time.perf_counter() for _ in range(2000)]
    cost = min(later - earlier for earlier, later in pairwise(times))
    named = f"{source}, " if source else ""
    detail = f"{named}{show(tick, 's')} ticks, {show(cost, 's')} a reading"
    if source in _SLOW:
        cure = "dmesg | grep -i tsc   # says why the TSC was given up"
        return line("clock", "clock", "blocked", f"{detail}: slow", cure)
    return line("clock", "clock", "ok", detail)
