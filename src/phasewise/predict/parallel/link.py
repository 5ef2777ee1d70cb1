"""What joins the devices: bytes a second of the catalogue, and how long a message takes however small it is.

The latencies are medians over messages of at most 2 KiB in public tables of measured collectives
(ai-dynamo/aiconfigurator, Apache-2.0): all-reduce is vLLM's custom kernel inside a CUDA graph, the others are NCCL's.
``benchmarks/collectives.py`` derives them again from the tables and prints how.
"""

from __future__ import annotations

import difflib
import math
from typing import Literal

import msgspec

from phasewise.errors import UsageError
from phasewise.hardware import catalogue
from phasewise.record.machine import Machine
from phasewise.record.quantity import Quantity, assumed
from phasewise.units import parse

Kind = Literal["all-reduce", "all-gather", "reduce-scatter", "all-to-all", "send"]

Latencies = dict[Kind, dict[int, float]]
"""Seconds by number of devices."""

NVLINK3: Latencies = {
    "all-reduce": {2: 4.88e-6, 4: 5.18e-6, 8: 5.68e-6},
    "all-gather": {2: 9.06e-6, 4: 10.77e-6, 8: 14.98e-6},
    "reduce-scatter": {2: 9.03e-6, 4: 10.75e-6, 8: 15.25e-6},
    "all-to-all": {2: 10.59e-6, 4: 12.43e-6, 8: 12.83e-6},
    "send": {2: 9.06e-6},
}
"""A100 SXM: vLLM 0.14 and NCCL 2.27.3. A send is taken to be as long as the all-gather of two."""

NVLINK4: Latencies = {
    "all-reduce": {2: 4.23e-6, 4: 4.56e-6, 8: 4.66e-6},
    "all-gather": {2: 5.24e-6, 4: 7.10e-6, 8: 10.40e-6},
    "reduce-scatter": {2: 5.35e-6, 4: 7.17e-6, 8: 10.26e-6},
    "all-to-all": {2: 6.49e-6, 4: 7.00e-6, 8: 8.13e-6},
    "send": {2: 5.24e-6},
}
"""H100 SXM: vLLM 0.24 and NCCL 2.29.2."""

PCIE: Latencies = {
    "all-reduce": {4: 19.4e-6, 8: 24e-6},
    "all-gather": {2: 8.3e-6, 4: 13.6e-6},
    "reduce-scatter": {2: 8.3e-6, 4: 13.6e-6},
    "all-to-all": {2: 8.3e-6, 4: 13.6e-6},
    "send": {2: 8.3e-6},
}
"""NCCL in a graph: all-reduce of 4 KB on four V100 (haohervchb/sglang-V100#2) and on eight cards (aiconfigurator's
tables of cards without NVLink), all-gather on RTX PRO 6000 (flashinfer-ai/flashinfer#5023); the others are taken to be
as long as that."""

_FAMILIES: tuple[tuple[str, Latencies, str], ...] = (
    ("nvlink2", NVLINK3, "as measured on NVLink3"),
    ("nvlink3", NVLINK3, "measured on A100 SXM, aiconfigurator's tables"),
    ("nvlink4", NVLINK4, "measured on H100 SXM, aiconfigurator's tables"),
    ("nvlink", NVLINK4, "as measured on NVLink4"),
    ("pcie", PCIE, "measured with NCCL on PCIe cards, public reports"),
)
"""By how the name of a link begins, the most precise first."""


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """A link between devices.

    Attributes:
        name: as in the catalogue.
        rate: bytes/s of one device in one direction.
        latencies: seconds of a message of no size; empty where none is known, which counts as none at all.
        latency_source: where they are from.
    """

    name: str
    rate: Quantity
    latencies: Latencies = {}
    latency_source: str = "not known, counted as zero"

    def latency(self, kind: Kind, devices: int) -> float:
        """Seconds that a collective of ``devices`` takes at least; between and beyond those known, by log2 of them."""
        known = self.latencies.get(kind)
        if not known or devices < 2:
            return 0.0
        sizes = sorted(known)
        if len(sizes) == 1 or kind == "send":
            return known[sizes[0]]
        low = max((n for n in sizes[:-1] if n <= devices), default=sizes[0])
        high = sizes[sizes.index(low) + 1]
        slope = (known[high] - known[low]) / math.log2(high / low)
        return max(0.0, known[low] + slope * math.log2(devices / low))


def of(machine: Machine) -> Link | None:
    """The link of a machine of the catalogue; None when it is not there, or its row states none."""
    try:
        row = catalogue.find(machine.name)
    except UsageError:
        return None
    if row.link_rate is None:
        return None
    sure = row.confidence == "seen" and "link_rate" not in row.unverified
    rate = Quantity(
        value=row.link_rate, unit="B/s", provenance="datasheet" if sure else "assumed", source=f"{row.link}, {row.name}"
    )
    return _link(row.link, rate)


def stated(text: str, machine: Machine | None = None) -> Link:
    """The link of ``--link``: the name of one in the catalogue, or a rate of one direction, as ``64GB/s``.

    A rate keeps the name and the latencies of the machine's own link.

    Raises:
        UsageError: no such link, one that comes with several rates, or no rate.
    """
    named = {row.link.casefold(): row.link for row in catalogue.accelerators() if row.link}
    name = named.get(text.strip().casefold())
    if name is None:
        if not any(character.isdigit() for character in text[:1]):
            near = difflib.get_close_matches(text.strip().casefold()[:40], named, n=3, cutoff=0.3)
            some = ", ".join(named[one] for one in near) or "NVLink4, PCIe5, xGMI"
            raise UsageError(
                f"--link {text[:40]!r} is no link of the catalogue and no rate: write one, such as {some}, or 450GB/s."
            )
        own = of(machine) if machine else None
        rate = assumed(parse(text, "B/s"), "B/s", "--link")
        return msgspec.structs.replace(own, rate=rate) if own else Link(name="stated link", rate=rate)
    rates = sorted({row.link_rate for row in catalogue.accelerators() if row.link == name and row.link_rate})
    if len(rates) != 1:
        some = ", ".join(f"{rate / 1e9:g}GB/s" for rate in rates) or "no rate"
        raise UsageError(f"{name} has {some} in the catalogue: give the rate of one direction, --link 450GB/s.")
    return _link(name, assumed(rates[0], "B/s", f"--link {name}, as in the catalogue"))


def _link(name: str, rate: Quantity) -> Link:
    plain = name.casefold().replace("-c2c/nvlink", "")
    for start, latencies, source in _FAMILIES:
        if plain.startswith(start):
            return Link(name=name, rate=rate, latencies=latencies, latency_source=source)
    return Link(name=name, rate=rate)
