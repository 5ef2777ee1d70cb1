"""What several checks need: a line to write, a file's text, the capabilities of this process, a port, a program."""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path

import msgspec

from phasewise.record.doctor import Finding, Status

CAP_SYS_PTRACE, CAP_SYS_ADMIN, CAP_PERFMON = 19, 21, 38
"""Bits of a capability set, by linux/capability.h."""


class Area(msgspec.Struct, frozen=True):
    """The heading of a check: called, it makes a line under itself."""

    name: str

    def __call__(self, key: str, what: str, status: Status, detail: str, cure: str = "") -> Finding:
        """A finding of this area; the arguments are those of `Finding`."""
        return Finding(key=key, area=self.name, what=what, status=status, detail=detail, cure=cure)


def text(file: Path) -> str | None:
    """What stands in a small file, stripped; None when it cannot be read."""
    try:
        return file.read_text(encoding="utf-8", errors="replace").strip()
    except (OSError, ValueError):
        return None


def number(file: Path) -> int | None:
    """The whole number in a file; None when there is none."""
    try:
        return int(text(file) or "")
    except ValueError:
        return None


def capable(root: Path, capability: int) -> bool:
    """Whether this process has ``capability`` in its effective set; root in a container often has not."""
    for line in (text(root / "proc/self/status") or "").splitlines():
        if line.startswith("CapEff:"):
            try:
                return bool(int(line.split()[1], 16) >> capability & 1)
            except (ValueError, IndexError):
                return False
    return False


def listening(port: int, timeout: float = 0.2) -> bool:
    """Whether something on this machine takes a connection at ``port`` of the loopback; nothing is sent."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout):
            return True
    except OSError:
        return False


def program(name: str, *elsewhere: str) -> tuple[Path | None, bool]:
    """Where a program lies, and whether the PATH leads to it; ``elsewhere`` are patterns from ``/``, newest last."""
    found = shutil.which(name)
    if found:
        return Path(found), True
    for pattern in elsewhere:
        places = [place for place in Path("/").glob(pattern) if os.access(place, os.X_OK)]
        if places:
            return max(places), False
    return None, False
