"""Measured ceilings kept per machine, so that a machine is measured once.

They lie in ``$XDG_CACHE_HOME/phasewise/ceilings`` (``~/.cache`` when it is not set), one file per machine.
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

import msgspec

from phasewise.errors import InputError
from phasewise.hardware import host
from phasewise.record.disk import whole
from phasewise.record.machine import Ceilings, Machine
from phasewise.record.quantity import Quantity

VERSION = 1
"""Of the form and the meaning of what is kept; another version is measured again."""


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """What a file holds: the ceilings of ``machine`` (for the reader's eyes) with when and how in their own words."""

    version: int = VERSION
    machine: str
    ceilings: Ceilings


def load(machine: Machine) -> Ceilings | None:
    """What was kept for ``machine``; None when nothing was.

    Raises:
        InputError: the file is damaged.
    """
    try:
        data = _file(machine).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise InputError(f"the ceilings kept for {machine.name} cannot be read ({error.strerror}).") from None
    try:
        kept = msgspec.json.decode(data, type=Kept)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(f"the ceilings kept for {machine.name} are damaged ({error}).") from None
    if kept.version != VERSION:
        return None
    if not _plausible(kept.ceilings):
        raise InputError(f"the ceilings kept for {machine.name} are damaged (not all are positive measured rates).")
    return kept.ceilings


def save(machine: Machine, ceilings: Ceilings) -> None:
    """Keep ``ceilings`` for ``machine``; the file is replaced as a whole.

    Raises:
        InputError: it cannot be written.
    """
    file = _file(machine)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with whole(file) as partial:
            partial.write_bytes(msgspec.json.format(msgspec.json.encode(Kept(machine=machine.name, ceilings=ceilings))))
    except OSError as error:
        raise InputError(f"the ceilings of {machine.name} could not be kept ({error.strerror}).") from None


def key(machine: Machine) -> str:
    """A file name that differs for machines whose ceilings differ.

    CPUs of one name come in several steppings and, in containers, with several numbers of threads; the GPU's name is
    that of ``machine``.
    """
    cpu = host.cpu()
    parts = (machine.kind, machine.name, cpu.name, cpu.stepping, str(cpu.threads), str(cpu.cores), str(cpu.cache))
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]
    words = re.sub(r"[^a-z0-9]+", "-", f"{machine.name}-{cpu.threads}-threads".lower()).strip("-")
    return f"{words[:80]}-{digest}"


def _file(machine: Machine) -> Path:
    home = os.environ.get("XDG_CACHE_HOME", "")
    cache = Path(home) if os.path.isabs(home) else Path(os.path.expanduser("~/.cache"))
    return cache / "phasewise" / "ceilings" / f"{key(machine)}.json"


def _plausible(ceilings: Ceilings) -> bool:
    rates = [rate for rate in (ceilings.bandwidth, ceilings.copy_bandwidth) if rate is not None]
    return ceilings.basis == "measured" and all(
        [_measured(peak, "FLOP/s") for peak in ceilings.compute.values()] + [_measured(rate, "B/s") for rate in rates]
    )


def _measured(rate: Quantity, unit: str) -> bool:
    return rate.unit == unit and rate.provenance == "measured" and 0 < rate.value < float("inf")
