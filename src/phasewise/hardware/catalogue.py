"""The accelerators that phasewise knows, found by exact name or listed alias, and what they become in a Run."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import msgspec

from phasewise.errors import InputError, UsageError
from phasewise.hardware.rows import DTYPES, FILE, Accelerator, normalised, read
from phasewise.record.catalogue import AcceleratorFacts
from phasewise.record.machine import Ceilings, Machine
from phasewise.record.quantity import Provenance, Quantity, assumed, reported
from phasewise.record.user import user_file
from phasewise.units import Unit, show

_SHOWN = 80
"""Characters of a name of the user's that a message repeats."""

_DOUBTS = {
    "mixed": "some of its figures were seen in no source",
    "derived": "some of its figures are computed from other figures",
    "conflict": "its sources disagree",
    "seen-conflict": "its sources disagree on some figures",
    "unverified": "no source was seen for its figures",
}


def accelerators() -> tuple[Accelerator, ...]:
    """Every row of the catalogue in its order, then those of the user's ``accelerators.csv``.

    Raises:
        InputError: a row of the user's is bad, or takes a name that the catalogue has; the text names its line.
    """
    return _with(user_file(FILE.name))


@cache
def _with(own: Path | None) -> tuple[Accelerator, ...]:
    shipped, added = read(), read(own, own=True) if own else ()
    taken = {normalised(name): row.name for row in shipped for name in (row.name, *row.aliases, *row.shared_names)}
    for row in added:
        for name in (row.name, *row.aliases, *row.shared_names):
            if normalised(name) in taken:
                raise InputError(
                    f"{row.origin}: {name!r} names {taken[normalised(name)]} of the catalogue: give the row its own."
                )
    return (*shipped, *added)


def find(name: str) -> Accelerator:
    """The accelerator called ``name``: its catalogue name, the driver's device name or another listed alias.

    Names are compared as a whole, never in part: "NVIDIA L40" is not an L4.

    Raises:
        UsageError: no such name, with the nearest ones; or a name that more than one version goes by, with those.
    """
    wanted = normalised(name)
    meant = [row for row in accelerators() if wanted in map(normalised, row.shared_names)]
    if meant:
        raise UsageError(f"{name[:_SHOWN]!r} does not say which version is meant: {_choice(meant)}.")
    for row in accelerators():
        if wanted in map(normalised, (row.name, *row.aliases)):
            return row
    raise UsageError(f"{name[:_SHOWN]!r} is not a known accelerator: {_nearest(wanted)}.")


def machine(accelerator: Accelerator, devices: int = 1) -> Machine:
    """``devices`` of ``accelerator`` as a machine whose only ceilings are the datasheet's, of one device.

    A figure is ``assumed`` when the row is not ``seen`` or calls the figure unverified. The row's notes come along.
    """
    compute = {dtype: _figure(accelerator, dtype, peak, "FLOP/s") for dtype, peak in accelerator.peaks.items()}
    memory = "usable" if accelerator.usable else "memory"
    notes = []
    if accelerator.confidence in _DOUBTS:
        notes.append(
            f"The figures of {accelerator.name} are assumed: {_DOUBTS[accelerator.confidence]} "
            f"(confidence: {accelerator.confidence})."
        )
    if accelerator.notes:
        notes.append(f"{accelerator.name}: {accelerator.notes}.")
    return Machine(
        name=accelerator.name,
        kind=accelerator.kind,
        devices=devices,
        memory_bytes=_figure(accelerator, memory, accelerator.usable or accelerator.memory, "B"),
        power_limit_w=_figure(accelerator, "tdp", accelerator.tdp, "W") if accelerator.tdp else None,
        ceilings=(
            Ceilings(
                basis="datasheet",
                compute=compute,
                bandwidth=_figure(accelerator, "bandwidth", accelerator.bandwidth, "B/s"),
                how=f"Dense datasheet rates of one device; {accelerator.source}.",
            ),
        ),
        notes=tuple(notes),
    )


def named_by(names: Iterable[str], devices: int = 1) -> Machine | None:
    """``devices`` of the accelerator that a trace's devices call themselves; None where they do not say, or differ.

    A name that the catalogue does not know, or that does not say which version it means, is None too: never a guess.

    Raises:
        InputError: a row of the user's own catalogue is bad.
    """
    said = set(names)
    if len(said) != 1:
        return None
    try:
        return machine(find(said.pop()), devices)
    except InputError:
        raise
    except UsageError:
        return None


def facts(row: Accelerator) -> AcceleratorFacts:
    """Everything that ``row`` says, each figure with its provenance."""
    return AcceleratorFacts(
        name=row.name,
        vendor=row.vendor,
        kind=row.kind,
        memory_bytes=_figure(row, "memory", row.memory, "B"),
        usable_bytes=_figure(row, "usable", row.usable, "B") if row.usable else None,
        bandwidth=_figure(row, "bandwidth", row.bandwidth, "B/s"),
        peaks={dtype: _figure(row, dtype, peak, "FLOP/s") for dtype, peak in row.peaks.items()},
        measured={dtype: reported(rate, "FLOP/s", row.source) for dtype, rate in row.measured.items()},
        link=row.link,
        link_rate=_figure(row, "link_rate", row.link_rate, "B/s") if row.link_rate else None,
        tdp=_figure(row, "tdp", row.tdp, "W") if row.tdp else None,
        confidence=row.confidence,
        unverified=row.unverified,
        source=row.source,
        notes=row.notes,
        aliases=row.aliases,
        shared_names=row.shared_names,
        origin=row.origin,
    )


def with_overrides(
    machine: Machine, peak: float | None = None, bandwidth: float | None = None, *, dtype: str | None = None
) -> Machine:
    """``machine`` with the ceilings that the user states in front; what is not stated is taken from the next basis.

    Args:
        machine: what it is put on.
        peak: FLOP/s of ``--peak``. It stands for every dtype that the machine has a peak for (for all, when it has
            none), because the user means the dtype that the matmuls run in.
        bandwidth: bytes/s of ``--bandwidth``.
        dtype: the one dtype that ``peak`` is for; the others keep theirs.
    """
    if peak is None and bandwidth is None:
        return machine
    base = machine.ceilings[0] if machine.ceilings else Ceilings(basis="stated", compute={}, bandwidth=None)
    compute, read_rate, notes = dict(base.compute), base.bandwidth, []
    if peak is not None:
        stated = assumed(peak, "FLOP/s", "--peak")
        compute |= dict.fromkeys([dtype] if dtype else compute or DTYPES, stated)
        notes.append(f"--peak sets the compute ceiling to {show(peak, 'FLOP/s')}.")
    if bandwidth is not None:
        read_rate = assumed(bandwidth, "B/s", "--bandwidth")
        notes.append(f"--bandwidth sets the bandwidth ceiling to {show(bandwidth, 'B/s')}.")
    flags = " and ".join(flag for flag, value in (("--peak", peak), ("--bandwidth", bandwidth)) if value is not None)
    ceilings = Ceilings(basis="stated", compute=compute, bandwidth=read_rate, how=f"Stated by {flags}.")
    return msgspec.structs.replace(machine, ceilings=(ceilings, *machine.ceilings), notes=(*machine.notes, *notes))


def _figure(row: Accelerator, column: str, value: float, unit: Unit) -> Quantity:
    sure = row.confidence == "seen" and column not in row.unverified
    provenance: Provenance = "datasheet" if sure else "assumed"
    return Quantity(value=value, unit=unit, provenance=provenance, source=row.source)


def _choice(rows: list[Accelerator]) -> str:
    names = [row.name for row in rows]
    if len(names) == 1:
        return f"say {names[0]} if it is that one, else give --peak and --bandwidth"
    return f"say {', '.join(names[:-1])} or {names[-1]}"


def _nearest(wanted: str) -> str:
    known = {normalised(name): row.name for row in accelerators() for name in (*row.aliases, row.name)}
    close = difflib.get_close_matches(wanted[:_SHOWN], known, n=6)
    names = list(dict.fromkeys(known[name] for name in close))[:3]
    hint = "`phasewise accelerators` lists them all, --peak and --bandwidth state the figures of any other"
    return f"the nearest are {', '.join(names)}; {hint}" if names else hint
