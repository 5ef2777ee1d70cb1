"""What can be measured on this machine and by this user: one file per kind of check, all of them in `CHECKS`.

A check takes the root of the file system (a test's own, or ``/``) and gives findings; it changes nothing, asks no
network but the loopback, and never fails. A new one is a file here and its name in the list.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from phasewise.hardware.doctor import (
    amd,
    container,
    counters,
    cpu,
    energy,
    extras,
    kernel,
    nvidia,
    profilers,
    servers,
    space,
    torch,
)
from phasewise.record.doctor import Finding

CHECKS: tuple[Callable[[Path], list[Finding]], ...] = (
    *(nvidia.look, counters.look, amd.look, profilers.look, torch.look, energy.look),
    *(cpu.look, kernel.look, container.look, space.look, extras.look, servers.look),
)
"""Every check, in the order in which it is shown."""
