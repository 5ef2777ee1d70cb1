"""What can be measured on this machine and by this user: one file per kind of check, all of them in `CHECKS`.

A check takes the root of the file system (a test's own, or ``/``) and gives findings; it changes nothing, asks no
network but the loopback, and never fails. A new one is a file here and its name in the list.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from phasewise.hardware.doctor.amd import amd
from phasewise.hardware.doctor.container import container
from phasewise.hardware.doctor.counters import counters
from phasewise.hardware.doctor.cpu import cpu
from phasewise.hardware.doctor.energy import energy
from phasewise.hardware.doctor.extras import extras
from phasewise.hardware.doctor.kernel import kernel
from phasewise.hardware.doctor.nvidia import nvidia
from phasewise.hardware.doctor.profilers import profilers
from phasewise.hardware.doctor.servers import servers
from phasewise.hardware.doctor.space import space
from phasewise.hardware.doctor.torch import torch
from phasewise.record.doctor import Finding

CHECKS: tuple[Callable[[Path], list[Finding]], ...] = (
    nvidia,
    counters,
    amd,
    profilers,
    torch,
    energy,
    cpu,
    kernel,
    container,
    space,
    extras,
    servers,
)
