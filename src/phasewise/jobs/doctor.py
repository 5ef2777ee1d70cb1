"""The job behind `phasewise doctor`: every check, and what follows for each verb."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from phasewise.engines import stamps
from phasewise.hardware.doctor import CHECKS
from phasewise.record.doctor import Examination, Finding, Verb

_PATIENCE = 0.5
_TRIES, _PAUSE = 20, 0.01
"""Linux begins to stamp a moment after the first socket asked for it (net_enable_timestamp works later, by itself)."""


class Use(NamedTuple):
    """A way of using phasewise. ``needs`` are keys of findings; of each group one that is ok is enough."""

    verb: str
    needs: tuple[tuple[str, ...], ...] = ()


USES = (
    Use("profile URL, sweep URL, load URL"),
    Use("profile (bundled model)", (("extra embedded",), ("bundled model",))),
    Use("profile gguf:FILE", (("extra embedded",),)),
    Use("profile hf:DIR, instrument", (("extra torch",),)),
    Use("load --workers ray:...", (("extra ray",),)),
    Use("predict, judge, logs, calibrate, report, simulate"),
    Use("trace: Kineto, SQLite, rocprof"),
    Use("trace: .nsys-rep", (("nsys",),)),
    Use("trace: .ncu-rep", (("extra ncu",),)),
    Use("capture URL (vLLM, SGLang)"),
    Use("capture --print nsys, here", (("nvidia driver",), ("nsys",))),
    Use("capture --print ncu, here", (("nvidia driver",), ("ncu",), ("counters",), ("dcgm",))),
    Use("ceilings of the CPU"),
    Use("ceilings of the GPU", (("nvidia driver", "amd"), ("torch",), ("torch gpu",))),
    Use("power of the GPU", (("gpu energy", "amdsmi"),)),
    Use("power of the CPU", (("rapl", "apple power"),)),
)
"""Every way, in the order of --help, with what it needs of this machine."""


def doctor(root: Path = Path("/")) -> Examination:
    """Look at everything; nothing is changed, and it takes under 3 s."""
    checks: tuple[Callable[[Path], list[Finding]], ...] = (*CHECKS, _receive_stamps)
    with ThreadPoolExecutor(len(checks)) as pool:
        found = [finding for findings in pool.map(lambda check: _made(check, root), checks) for finding in findings]
    areas = list(dict.fromkeys(finding.area for finding in found))
    findings = sorted(found, key=lambda finding: areas.index(finding.area))
    return Examination(findings=tuple(findings), verbs=verbs(findings))


def _made(check: Callable[[Path], list[Finding]], root: Path) -> list[Finding]:
    """What ``check`` finds. Of a machine that it did not foresee, that it failed: the other lines are still wanted."""
    try:
        return check(root)
    except Exception as error:
        name = check.__module__.rpartition(".")[2]
        detail = f"this check failed: {type(error).__name__}: {error}"
        return [Finding(key=f"check {name}", area="Doctor itself", what=name, status="blocked", detail=detail)]


def verbs(findings: list[Finding]) -> tuple[Verb, ...]:
    """What follows for each way of using phasewise."""
    return tuple(_verb(use, findings) for use in USES)


def _verb(use: Use, findings: list[Finding]) -> Verb:
    lacks = tuple(" or ".join(group) for group in use.needs if not any(_fine(key, findings) for key in group))
    return Verb(verb=use.verb, works=not lacks, lacks=lacks)


def _fine(key: str, findings: list[Finding]) -> bool:
    """Whether there is such a finding and nothing is wrong with it; of several cards one is enough."""
    return any(finding.key == key and finding.status == "ok" for finding in findings)


def _receive_stamps(root: Path) -> list[Finding]:
    """Whether the kernel stamps what a socket receives: tried with some bytes through the loopback."""
    del root
    key, area, what = "receive stamps", "Kernel", "receive stamps"
    if _stamped():
        detail = "the kernel says when each byte came: our own delays do not count"
        return [Finding(key=key, area=area, what=what, status="ok", detail=detail)]
    detail = "none here: times of the client are its own, and its lag is their error"
    return [Finding(key=key, area=area, what=what, status="missing", detail=detail, cure="run phasewise on Linux")]


def _stamped() -> bool:
    try:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.settimeout(_PATIENCE)
            with socket.create_connection(listener.getsockname(), _PATIENCE) as near, listener.accept()[0] as far:
                if not stamps.enable(near):
                    return False
                near.settimeout(_PATIENCE)
                for _ in range(_TRIES):
                    far.sendall(b".")
                    if near.recvmsg(1, stamps.ROOM)[1]:
                        return True
                    time.sleep(_PAUSE)
                return False
    except OSError:
        return False
