"""CPU packages through RAPL, which Linux shows in /sys/class/powercap (Intel and AMD): an energy counter, no watts."""

from __future__ import annotations

import time
from pathlib import Path

from phasewise.hardware.power.base import Device, Reading, Unreadable

NAME = "RAPL"

ROOT = Path("/sys/class/powercap")


def open_meter(root: Path = ROOT) -> RaplMeter:
    """Every package, and its memory where that is counted apart.

    Raises:
        Unreadable: no RAPL, or counters that this user may not read.
    """
    found = [domain for domain in sorted(root.glob("intel-rapl:*")) if (domain / "energy_uj").exists()]
    # A package holds its cores and its graphics, psys holds the packages: only what adds up is read.
    packages = [domain for domain in found if _text(domain / "name").startswith("package")]
    memories = [domain for domain in found if _text(domain / "name") == "dram"]
    domains = [*packages, *memories] or [domain for domain in found if _text(domain / "name") == "psys"]
    if not domains:
        where = "a virtual machine has none" if not root.exists() else f"{root} has none"
        raise Unreadable(f"no RAPL counter is there ({where}): measure on the host")
    for domain in domains:
        try:
            (domain / "energy_uj").read_text()
        except OSError as error:
            cure = f"sudo chmod a+r {root}/intel-rapl:*/energy_uj"
            raise Unreadable(f"RAPL's counters may not be read ({error.strerror}): {cure}") from None
    return RaplMeter(domains)


class RaplMeter:
    """RAPL's counters, in microjoules, which start again at zero after ``max_energy_range_uj``."""

    def __init__(self, domains: list[Path]) -> None:
        self._domains = domains
        self._limits = [_number(domain / "constraint_0_power_limit_uw") for domain in domains]
        self.devices = tuple(_device(i, domain) for i, domain in enumerate(domains))

    def read(self) -> list[Reading]:
        """One reading of each domain."""
        return [self._read(i) for i in range(len(self._domains))]

    def close(self) -> None:
        """Nothing is held."""

    def _read(self, index: int) -> Reading:
        at = time.perf_counter()
        energy, limit = _number(self._domains[index] / "energy_uj"), self._limits[index]
        return Reading(
            at=at,
            device=index,
            joules=None if energy is None else energy * 1e-6,
            limit_w=limit * 1e-6 if limit else None,
        )


def _device(index: int, domain: Path) -> Device:
    wraps = _number(domain / "max_energy_range_uj")
    return Device(
        index=index,
        name=f"CPU {_text(domain / 'name')} ({domain.name})",
        kind="cpu",
        meter=NAME,
        counter="energy_uj",
        wraps_at=wraps * 1e-6 if wraps else None,
    )


def _text(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""


def _number(file: Path) -> float | None:
    try:
        return float(int(file.read_text()))
    except (OSError, ValueError):
        return None
