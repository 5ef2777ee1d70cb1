"""The catalogues as they are browsed: what phasewise ships and what the user's files add."""

from __future__ import annotations

from typing import Any

import msgspec

from phasewise.record.model import ModelFacts
from phasewise.record.quantity import Quantity


class AcceleratorFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One accelerator: figures of one device, rates dense.

    ``measured`` are the matmul rates that others reached, ``confidence`` and ``unverified`` say how far to trust the
    row, ``shared_names`` are names that do not say which version is meant. ``origin`` is the file and line of a user's
    own row, empty for the others.
    """

    name: str
    vendor: str
    kind: str
    memory_bytes: Quantity
    usable_bytes: Quantity | None
    bandwidth: Quantity
    peaks: dict[str, Quantity]
    measured: dict[str, Quantity]
    link: str
    link_rate: Quantity | None
    tdp: Quantity | None
    confidence: str
    unverified: tuple[str, ...]
    source: str
    notes: str
    aliases: tuple[str, ...]
    shared_names: tuple[str, ...]
    origin: str = ""


class ModelEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One model: its other names, its source, the keys of its config, and what they come to.

    ``origin`` is the file and line of a user's own row, empty for the others.
    """

    name: str
    family: str
    aliases: tuple[str, ...]
    source: str
    config: dict[str, Any]
    facts: ModelFacts
    origin: str = ""
