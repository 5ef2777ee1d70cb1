"""Section of hardware/: what the machine could do, by datasheet and as measured."""

from __future__ import annotations

from typing import Literal

import msgspec

from phasewise.record.quantity import Quantity

Basis = Literal["datasheet", "measured", "stated"]


class Ceilings(msgspec.Struct, frozen=True, kw_only=True):
    """The most that one device can do, on one basis.

    Attributes:
        basis: ``datasheet`` (catalogue), ``measured`` (on this machine), ``stated`` (by --peak and --bandwidth).
        compute: dense FLOP/s by dtype (``bf16``, ``fp16``, ``fp8``, ``int8``, ``fp4``, ``fp32``); never sparse rates.
        bandwidth: bytes/s of reading memory.
        copy_bandwidth: bytes/s of copying (bytes read plus bytes written), where it was measured.
        how: how and when it was obtained, in one sentence.
    """

    basis: Basis
    compute: dict[str, Quantity]
    bandwidth: Quantity | None
    copy_bandwidth: Quantity | None = None
    how: str = ""


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """The accelerator that runs the model.

    Attributes:
        name: catalogue name, or what the machine calls itself when it is in no catalogue.
        kind: ``gpu``, ``cpu``, ``tpu``, ``npu`` or ``unknown``.
        devices: how many of them run the model together.
        memory_bytes: of one device, when known.
        power_limit_w: of one device, when known.
        local: True when it is the machine phasewise runs on.
        ceilings: of one device, the most trusted basis first; empty when nothing is known.
        notes: sentences a reader must know (unverified row, peaks overridden, ...).
    """

    name: str
    kind: Literal["gpu", "cpu", "tpu", "npu", "unknown"]
    devices: int = 1
    memory_bytes: Quantity | None = None
    power_limit_w: Quantity | None = None
    local: bool = False
    ceilings: tuple[Ceilings, ...] = ()
    notes: tuple[str, ...] = ()
