"""What the fake NVML's GPUs are: a state file that all its processes share, and what computes on them."""

from __future__ import annotations

import bisect
import fcntl
import json
import os
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

IDLE, POWER_CAP = 0x1, 0x4
"""Clock event reasons."""

ROW = {
    "t": 0.0,
    "power_w": 0.0,
    "sm_mhz": 0.0,
    "mem_mhz": 0.0,
    "temperature_c": 0.0,
    "gpu_pct": 0.0,
    "mem_pct": 0.0,
    "reasons": 0.0,
}
"""Columns of a telemetry row; seconds since the state was written, and from then until the next row it holds."""


def state(*gpus: dict[str, Any], driver: str = "560.35.03", **faults: dict[str, Any]) -> dict[str, Any]:
    """What the file holds.

    ``faults`` are by function name, each with any of: ``error`` (a code that it raises), ``sleep_s`` (a slow call),
    ``gpu`` (only that index), ``skip`` (only from that call of a process on), ``times`` (only so many calls of a
    process), ``hang`` (never return: ``"before"`` or ``"after"`` it took effect).
    """
    return {"driver": driver, "epoch": time.monotonic(), "gpus": list(gpus), "faults": faults, "sets": []}


def gpu(**about: Any) -> dict[str, Any]:
    """One GPU; ``about`` replaces the fields below.

    ``constraints``, ``limit``, ``default`` and ``enforced`` (None: as ``limit``) are mW. ``mig`` None: not supported.
    ``rows`` is the recorded series. Where ``load`` names a file (see ``Load``), what runs there decides power and
    clock instead, and a limit under its demand throttles it. ``driver``: ``takes`` a set limit, ``clamps`` it to
    multiples of 50 W, ``ignores`` it without a word. ``energy_mj`` is the counter at the start, ``wraps_at`` where it
    begins again at 0. ``clock_power`` is the exponent of dynamic power over the SM clock. A ``lost`` GPU does not
    answer.
    """
    return {
        "name": "NVIDIA H200",
        "uuid": "GPU-00000000-0000-0000-0000-000000000000",
        "constraints": [200_000, 700_000],
        "limit": 700_000,
        "default": 700_000,
        "enforced": None,
        "mig": [0, 0],
        "memory": 150_754_820_096,
        "max_sm_mhz": 1980,
        "max_mem_mhz": 3201,
        "idle_w": 75.0,
        "rows": [],
        "load": None,
        "driver": "takes",
        "energy_mj": 1_000_000,
        "wraps_at": None,
        "clock_power": 3.0,
        "lost": False,
    } | about


def write(path: Path, content: dict[str, Any]) -> None:
    """Put ``content`` in place, whole or not at all."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    partial.write_text(json.dumps(content))
    partial.replace(path)


_cached: tuple[bytes, dict[str, Any]] | None = None


def read(path: Path) -> dict[str, Any]:
    """The state as it is now; parsed once while the file stays the same. Do not change it."""
    global _cached
    data = path.read_bytes()
    if _cached is None or _cached[0] != data:
        _cached = (data, json.loads(data))
    return _cached[1]


def change(path: Path, edit: Callable[[dict[str, Any]], None]) -> None:
    """Edit what the file holds, one process at a time."""
    with path.with_name(path.name + ".lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        content = json.loads(path.read_text())
        edit(content)
        write(path, content)


class Load:
    """What computes on the GPU, in a file of 32 bytes that its process writes and every fake reads.

    ``run(begin, seconds, watts)`` says that from ``begin`` (monotonic) on for ``seconds`` it would draw ``watts``
    uncapped; afterwards the GPU idles. The energy counter goes on from what was drawn before.
    """

    _FORM = struct.Struct("<4d")  # energy at begin (mJ), begin, end, demanded watts

    def __init__(self, path: Path, state_path: Path, index: int = 0) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        self._state, self._index = state_path, index
        self._energy, self._begin, self._end, self._drawn = 0.0, time.monotonic(), 0.0, 0.0

    def run(self, begin: float, seconds: float, watts: float) -> None:
        about = read(self._state)["gpus"][self._index]
        self._energy += self._since(begin, about)
        self._begin, self._end, self._drawn = begin, begin + seconds, throttled(about, watts)[0]
        os.pwrite(self._file, self._FORM.pack(self._energy, begin, self._end, watts), 0)

    def clock_share(self, watts: float) -> float:
        """SM clock over its maximum while ``watts`` are demanded under the limit that holds now."""
        about = read(self._state)["gpus"][self._index]
        return throttled(about, watts)[1] / float(about["max_sm_mhz"])

    def _since(self, now: float, about: dict[str, Any]) -> float:
        return energy_since(self._begin, self._end, self._drawn, now, float(about["idle_w"]))

    @classmethod
    def now(cls, path: str) -> tuple[float, float, float, float]:
        """Energy at begin (mJ), begin, end and demanded watts."""
        try:
            data = Path(path).read_bytes()
        except FileNotFoundError:
            data = b""
        return cls._FORM.unpack(data.ljust(cls._FORM.size, b"\0"))


def throttled(about: dict[str, Any], watts: float) -> tuple[float, float, int]:
    """Watts drawn, SM clock and reasons when ``watts`` are demanded under the GPU's limit.

    Power over idle goes with a power of the clock (``clock_power``; 3 is the textbook's V² · f).
    """
    limit, idle, top = about["limit"] / 1000, float(about["idle_w"]), float(about["max_sm_mhz"])
    if watts <= limit:
        return watts, top, 0
    share = max(0.05, (limit - idle) / (watts - idle))
    return limit, top * share ** (1 / about["clock_power"]), POWER_CAP


def energy_since(begin: float, end: float, drawn: float, now: float, idle: float) -> float:
    busy = max(0.0, min(now, end) - begin)
    return 1000 * (drawn * busy + idle * max(0.0, now - max(begin, end)))


def row_now(about: dict[str, Any], epoch: float) -> dict[str, float]:
    """The telemetry that holds now of a GPU whose state was written at ``epoch``."""
    if about["load"] is not None:
        _, begin, end, watts = Load.now(about["load"])
        if begin <= time.monotonic() < end:
            drawn, clock, reasons = throttled(about, watts)
            return ROW | {
                "power_w": drawn,
                "sm_mhz": clock,
                "mem_mhz": about["max_mem_mhz"],
                "temperature_c": 60,
                "gpu_pct": 100,
                "mem_pct": 50,
                "reasons": reasons,
            }
        return _idle(about)
    rows: list[dict[str, float]] = about["rows"]
    at = time.monotonic() - epoch
    place = bisect.bisect_right([row["t"] for row in rows], at) - 1
    return ROW | rows[place] if place >= 0 else _idle(about)


def _idle(about: dict[str, Any]) -> dict[str, float]:
    return ROW | {
        "power_w": about["idle_w"],
        "sm_mhz": about["max_sm_mhz"],
        "mem_mhz": about["max_mem_mhz"],
        "temperature_c": 35,
        "reasons": IDLE,
    }


def energy_now(about: dict[str, Any], epoch: float) -> int:
    """Its energy counter, mJ."""
    now = time.monotonic()
    if about["load"] is not None:
        energy, begin, end, watts = Load.now(about["load"])
        used = energy + (energy_since(begin, end, throttled(about, watts)[0], now, about["idle_w"]) if begin else 0.0)
    else:
        used, at, rows = 0.0, now - epoch, about["rows"] or [{"t": 0.0, "power_w": about["idle_w"]}]
        for row, after in zip(rows, [*rows[1:], {"t": float("inf")}], strict=True):
            used += 1000 * row["power_w"] * max(0.0, min(at, after["t"]) - row["t"])
    total = int(about["energy_mj"] + used)
    return total % about["wraps_at"] if about["wraps_at"] else total
