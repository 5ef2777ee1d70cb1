"""Measured ceilings: the matmul rate per dtype and the read and copy bandwidth that this machine really reaches."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from phasewise.errors import PhasewiseError, UsageError
from phasewise.hardware import catalogue, child, store
from phasewise.hardware.stages import Stage, stages
from phasewise.record.machine import Ceilings, Machine
from phasewise.record.quantity import Quantity, measured
from phasewise.units import Unit

Progress = Callable[[str, float], None]
"""Called now and then with what is being measured and the fraction that is done."""

SECONDS = 8.0
"""How long measuring takes when it is all that is asked for."""

QUICK = 4.0
"""How long it takes as a part of another job."""

_BUSY = 0.9
"""A measurement whose threads got less of the CPU time than this was disturbed by other programs."""

_LONGER = 60.0
"""Seconds over the planned ones after which a program is taken to hang: starting PyTorch on a GPU can take half."""


class _Seen(NamedTuple):
    """All rounds of one quantity in one stage, and who measured them."""

    rounds: list[child.Round]
    by: str

    @property
    def best(self) -> child.Round:
        return max(self.rounds, key=lambda one: one.rate)


def with_measured(machine: Machine, progress: Progress | None = None) -> Machine:
    """``machine`` with its measured ceilings, kept or measured now in about ``QUICK`` seconds.

    A machine that cannot be measured comes back with a note that says why.
    """
    try:
        return ensure(machine, QUICK, progress)
    except PhasewiseError as error:
        return msgspec.structs.replace(machine, notes=(*machine.notes, f"Its ceilings were not measured: {error}"))


def ensure(
    machine: Machine, seconds: float = SECONDS, progress: Progress | None = None, *, again: bool = False
) -> Machine:
    """``machine`` with its measured ceilings in front of the datasheet's: kept ones, or (or ``again``) measured now.

    What other programs disturbed is not kept. Raises what ``measure`` raises.
    """
    notes: list[str] = []
    found = None
    if not again:
        try:
            found = store.load(machine)
        except UsageError as error:
            notes.append(f"Measured again: {error}")
    if found is None:
        found, calm = _measure(machine, seconds, progress)
        if calm:
            try:
                store.save(machine, found)
            except UsageError as error:
                notes.append(f"To be measured again next time: {error}")
        else:
            notes.append("Other programs disturbed the measurement, so it was not kept.")
    front = [one for one in machine.ceilings if one.basis == "stated"]
    back = [one for one in machine.ceilings if one.basis == "datasheet"]
    return msgspec.structs.replace(machine, ceilings=(*front, found, *back), notes=(*machine.notes, *notes))


def measure(machine: Machine, seconds: float = SECONDS, progress: Progress | None = None) -> Ceilings:
    """Measure ``machine``, which must be this one, in about ``seconds`` (and a second or two for starting up).

    Random data, larger than the caches, all usable cores, the best of several rounds; low and high are the spread of
    the rounds that other programs left alone. float32 matmuls run in numpy's BLAS with the kernels that suit this CPU
    best, and are checked against float64. Where PyTorch is installed it adds bf16 and int8 on a CPU; on a GPU it
    measures everything.

    Raises:
        UsageError: ``machine`` is another one, or PyTorch computes on another GPU.
        MissingExtra: a GPU without PyTorch.
        PhasewiseError: nothing could be measured.
    """
    return _measure(machine, seconds, progress)[0]


def _measure(machine: Machine, seconds: float, progress: Progress | None) -> tuple[Ceilings, bool]:
    """The ceilings, and whether other programs left the machine alone meanwhile."""
    if not machine.local:
        raise UsageError(f"only this machine can be measured, and {machine.name} was named: leave it away.")
    seen: dict[str, _Seen] = {}
    remarks: list[str] = []
    done = 0.0
    for stage in stages(machine):
        try:
            rounds, end = _run(stage, seconds, _ticks(stage, done, progress), remarks)
        except child.Failed as error:
            remarks.append(f"{stage.label} could not be measured: {error}.")
        else:
            _refuse_other(end.device, machine)
            remarks += [f"{name} was left out: {why}." for name, why in end.left_out.items()]
            for name, ones in rounds.items():
                found = _Seen(ones, f"{end.by}{stage.where}")
                if name not in seen or found.best.rate > seen[name].best.rate:
                    seen[name] = found
        done += stage.share
    if not seen:
        raise PhasewiseError(f"{machine.name} could not be measured: {' '.join(remarks)} State --peak and --bandwidth.")
    return _ceilings(seen, remarks)


def _run(
    stage: Stage, seconds: float, tick: Callable[[], None], remarks: list[str]
) -> tuple[dict[str, list[child.Round]], child.End]:
    """The rounds by quantity, from the first environment in which the program succeeds."""
    failures: list[str] = []
    for environment in stage.environments:
        rounds: dict[str, list[child.Round]] = {}

        def heard(one: child.Round, rounds: dict[str, list[child.Round]] = rounds) -> None:
            rounds.setdefault(one.quantity, []).append(one)
            tick()

        arguments = stage.arguments | {"seconds": seconds * stage.share}
        try:
            end = child.run(stage.program, arguments, environment, seconds + _LONGER, heard)
        except child.Failed as error:
            failures.append(str(error))
            continue
        if failures:
            pinned = " and ".join(name for name in child.PINNED if name in environment)
            remarks.append(f"{stage.label} ran with {pinned} as set, because without: {failures[0]}.")
        return rounds, end
    raise child.Failed(failures[-1])


def _ticks(stage: Stage, done: float, progress: Progress | None) -> Callable[[], None]:
    """A call per round that moves ``progress`` on from ``done``."""
    count = -1

    def tick() -> None:
        nonlocal count
        count += 1
        if progress is not None:
            progress(stage.label, min(1.0, done + stage.share * count / stage.rounds))

    tick()
    return tick


def _refuse_other(device: str, machine: Machine) -> None:
    """Refuse what PyTorch measured on a GPU that is not ``machine``; ``device`` is empty for a CPU."""
    names = {device}
    with contextlib.suppress(UsageError):
        names.add(catalogue.find(device).name)
    if device and machine.name not in names:
        raise UsageError(
            f"PyTorch computes on {device}, but this machine shows {machine.name}: let both see one kind of GPU only."
        )


def _ceilings(seen: dict[str, _Seen], remarks: list[str]) -> tuple[Ceilings, bool]:
    date = datetime.now(UTC).date().isoformat()
    rates = {name: _quantity(name, one, date) for name, one in seen.items()}
    share = min(one.best.cpu_share for one in seen.values())
    how = [f"Measured on {date} on random data, the best of several rounds."]
    if share < _BUSY:
        how.append(f"Other programs took {100 * (1 - share):.0f}% of the CPU time, so the ceilings may be too low.")
    ceilings = Ceilings(
        basis="measured",
        compute=_compute(rates),
        bandwidth=rates.get("read"),
        copy_bandwidth=rates.get("copy"),
        how=" ".join(how + remarks),
    )
    return ceilings, share >= _BUSY


def _compute(rates: dict[str, Quantity]) -> dict[str, Quantity]:
    """The matmul rates, fastest first, without the dtypes that are slower than float32.

    Without hardware for it, a narrow dtype is emulated; the same numbers multiplied in float32 are the faster way, and
    so the ceiling.
    """
    peaks = sorted(((n, rate) for n, rate in rates.items() if rate.unit == "FLOP/s"), key=lambda peak: -peak[1].value)
    least = rates["fp32"].value if "fp32" in rates else 0.0
    return {name: rate for name, rate in peaks if rate.value >= least}


def _quantity(name: str, seen: _Seen, date: str) -> Quantity:
    unit: Unit = "B/s" if name in ("read", "copy") else "FLOP/s"
    best = seen.best
    calm = [one.rate for one in seen.rounds if one.cpu_share >= _BUSY]
    low = min(calm or [one.rate for one in seen.rounds])
    return measured(best.rate, unit, f"{best.detail}, {seen.by}, {date}", low=min(low, best.rate), high=best.rate)
