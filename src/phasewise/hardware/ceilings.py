"""Measured ceilings: the matmul rate per dtype and the read and copy bandwidth that this machine really reaches."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from phasewise.errors import MissingExtra, PhasewiseError, UsageError
from phasewise.hardware import catalogue, child, host, store
from phasewise.record.machine import Ceilings, Machine
from phasewise.record.quantity import Quantity, measured
from phasewise.units import Unit, parse

Progress = Callable[[str, float], None]
"""Called now and then with what is being measured and the fraction that is done."""

SECONDS = 8.0
"""How long measuring takes when it is all that is asked for."""

QUICK = 4.0
"""How long it takes as a part of another job."""

_CPU, _TORCH = "phasewise.hardware.measure_cpu", "phasewise.hardware.measure_torch"
_LEAST = int(parse("256MiB", "B"))
_BUSY = 0.9
"""A measurement whose threads got less of the CPU time than this was disturbed by other programs."""

_LONGER = 60.0
"""Seconds over the planned ones after which a program is taken to hang: starting PyTorch on a GPU can take half."""


class _Stage(NamedTuple):
    """One program to run: in the first of ``environments`` where it succeeds, for ``share`` of the time."""

    label: str
    program: str
    arguments: dict[str, object]
    environments: tuple[dict[str, str], ...]
    share: float
    rounds: int
    where: str


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
        return msgspec.structs.replace(machine, notes=(*machine.notes, f"It was not measured: {error}"))


def ensure(
    machine: Machine, seconds: float = SECONDS, progress: Progress | None = None, *, again: bool = False
) -> Machine:
    """``machine`` with its measured ceilings in front of the datasheet's: kept ones, or (or ``again``) measured now.

    What other programs disturbed is not kept. Raises what ``measure`` raises.
    """
    notes: list[str] = []
    try:
        found = None if again else store.load(machine)
    except UsageError as error:
        notes.append(f"Measured again: {error}")
        found = None
    if found is None:
        found, quiet = _measure(machine, seconds, progress)
        if quiet:
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
        raise UsageError(f"only this machine can be measured, and {machine.name} is stated: leave --on away.")
    stages = _gpu_stages() if machine.kind == "gpu" else _cpu_stages(host.cpu())
    seen: dict[str, _Seen] = {}
    remarks: list[str] = []
    done = 0.0
    for stage in stages:
        ticks = _ticks(stage, done, progress)
        try:
            rounds, end = _run(stage, seconds, ticks, remarks)
        except child.Failed as error:
            remarks.append(f"{stage.label} could not be measured: {error}.")
        else:
            _refuse_other(end.device, machine)
            remarks += [f"{name} was left out: {why}." for name, why in end.left_out.items()]
            for name, ones in rounds.items():
                if name not in seen or max(one.rate for one in ones) > seen[name].best.rate:
                    seen[name] = _Seen(ones, f"{end.by}{stage.where}")
        done += stage.share
    if not seen:
        raise PhasewiseError(f"{machine.name} could not be measured: {' '.join(remarks)} State --peak and --bandwidth.")
    return _ceilings(seen, remarks)


def _run(
    stage: _Stage, seconds: float, heard: Callable[[], None], remarks: list[str]
) -> tuple[dict[str, list[child.Round]], child.End]:
    """The rounds by quantity, from the first environment in which the program succeeds."""
    failures: list[str] = []
    for environment in stage.environments:
        rounds: dict[str, list[child.Round]] = {}

        def keep(one: child.Round, rounds: dict[str, list[child.Round]] = rounds) -> None:
            rounds.setdefault(one.quantity, []).append(one)
            heard()

        arguments = stage.arguments | {"seconds": seconds * stage.share}
        try:
            end = child.run(stage.program, arguments, environment, seconds + _LONGER, keep)
        except child.Failed as error:
            failures.append(str(error))
            continue
        if failures:
            pinned = " and ".join(name for name in child.PINNED if name in environment)
            remarks.append(f"{stage.label}: with {pinned} as they were set, because without them {failures[0]}.")
        return rounds, end
    raise child.Failed(failures[-1])


def _cpu_stages(cpu: host.Cpu) -> list[_Stage]:
    """Matmuls on all hardware threads and (where those share cores) on one thread per core, memory, and PyTorch."""
    torch = importlib.util.find_spec("torch") is not None
    share = 0.3 if torch else 0.45
    threads = sorted({cpu.threads, cpu.cores})
    size = _matmul_size(cpu.cache)
    stages = [
        _Stage(
            "fp32 matmuls", _CPU, {"type": "matmul", "size": size, "threads": n}, _environments(n),
            share / len(threads), child.ROUNDS, f", {n} threads",
        )
        for n in threads
    ]  # fmt: skip
    arguments: dict[str, object] = {"type": "bandwidth", "nbytes": _array_bytes(cpu), "threads": cpu.threads}
    where = f", {cpu.threads} threads"
    stages.append(_Stage("memory", _CPU, arguments, _environments(1), share, 2 * child.ROUNDS, where))
    if torch:
        arguments = {"device": "cpu", "size": size}
        environments = _environments(cpu.threads)[:1]
        stages.append(_Stage("PyTorch matmuls", _TORCH, arguments, environments, share, 2 * child.ROUNDS, where))
    return stages


def _gpu_stages() -> list[_Stage]:
    if importlib.util.find_spec("torch") is None:
        raise MissingExtra("measuring a GPU needs PyTorch with CUDA: pip install torch.")
    arguments: dict[str, object] = {"device": "cuda", "size": 8192}
    return [_Stage("the GPU", _TORCH, arguments, (dict(os.environ),), 1.0, 7 * child.ROUNDS, "")]


def _environments(threads: int) -> tuple[dict[str, str], ...]:
    """Without the variables that pin BLAS kernels; then, where there are any, with them."""
    pinned = any(name in os.environ for name in child.PINNED)
    return tuple(child.environment(threads, pinned=keep) for keep in ((False, True) if pinned else (False,)))


def _matmul_size(cache: int | None) -> int:
    """Rows of square float32 matrices, three of which are twice the caches: a multiple of 256 from 2,048 on."""
    rows = (2.0 * (cache or 0) / 12) ** 0.5
    return max(2048, -(-int(rows) // 256) * 256)


def _array_bytes(cpu: host.Cpu) -> int:
    """Bytes of each of the two arrays: 8 caches and 256 MiB at least, but both in an eighth of the memory."""
    wanted = max(8 * (cpu.cache or 0), _LEAST)
    return min(wanted, cpu.memory // 16) if cpu.memory else wanted


def _ticks(stage: _Stage, done: float, progress: Progress | None) -> Callable[[], None]:
    count = 0

    def tick() -> None:
        nonlocal count
        count += 1
        if progress is not None:
            progress(stage.label, min(1.0, done + stage.share * count / stage.rounds))

    if progress is not None:
        progress(stage.label, min(1.0, done))
    return tick


def _refuse_other(device: str, machine: Machine) -> None:
    """Refuse what PyTorch measured on a GPU that is not ``machine``."""
    names = {device}
    try:
        names.add(catalogue.find(device).name)
    except UsageError:
        pass
    if device and machine.name not in names:
        raise UsageError(
            f"PyTorch computes on {device}, but this machine shows {machine.name}: "
            "let it see one kind of GPU only, with CUDA_VISIBLE_DEVICES."
        )


def _ceilings(seen: dict[str, _Seen], remarks: list[str]) -> tuple[Ceilings, bool]:
    date = datetime.now(UTC).date().isoformat()
    rates = {name: _quantity(name, one, date) for name, one in seen.items()}
    widest = rates["fp32"].value if "fp32" in rates else 0.0
    share = min(one.best.cpu_share for one in seen.values())
    how = [f"Measured on {date} on random data, the best of {child.ROUNDS} rounds."]
    if share < _BUSY:
        how.append(f"Other programs took {100 * (1 - share):.0f}% of the CPU time, so the ceilings may be too low.")
    return Ceilings(
        basis="measured",
        # A narrow dtype without hardware of its own is slower than float32, in which its numbers can be computed too.
        compute={
            name: rate
            for name, rate in sorted(rates.items(), key=lambda item: -item[1].value)
            if rate.unit == "FLOP/s" and rate.value >= widest
        },
        bandwidth=rates.get("read"),
        copy_bandwidth=rates.get("copy"),
        how=" ".join(how + remarks),
    ), share >= _BUSY


def _quantity(name: str, seen: _Seen, date: str) -> Quantity:
    unit: Unit = "B/s" if name in ("read", "copy") else "FLOP/s"
    calm = [one.rate for one in seen.rounds if one.cpu_share >= _BUSY] or [one.rate for one in seen.rounds]
    best = seen.best
    return measured(best.rate, unit, f"{best.detail}, {seen.by}, {date}", low=min(calm), high=best.rate)
