"""Which programs measure which machine: on what sizes, with how many threads, for what part of the time."""

from __future__ import annotations

import importlib.util
import os
from typing import NamedTuple

from phasewise.errors import MissingExtra
from phasewise.hardware import child, host
from phasewise.record.machine import Machine
from phasewise.units import parse

_CPU, _TORCH = "phasewise.hardware.measure_cpu", "phasewise.hardware.measure_torch"

_LEAST = int(parse("256MiB", "B"))
_ON_CPU = ("bf16", "int8")
"""What PyTorch adds on a CPU; its float32 and its memory kernels are no faster than numpy's, its fp16 is emulated."""

_SHORT = 1024
"""Rows of a second, smaller matmul on a CPU: on a busy machine only a short one runs undisturbed."""

_ON_GPU = ("fp32", "fp16", "bf16", "fp8", "int8", "read", "copy")
_GPU_SIZE = 8192
"""Rows of the matmuls on a GPU: large enough to fill one, and 0.3 GB each in float32."""


class Stage(NamedTuple):
    """One program to run.

    Attributes:
        label: what is measured, for a progress line.
        program: the module.
        arguments: for it, without ``seconds``.
        environments: tried in turn until it succeeds.
        share: the part of the time that it gets.
        rounds: how many it will report.
        where: on how many threads, to end a source with.
    """

    label: str
    program: str
    arguments: dict[str, object]
    environments: tuple[dict[str, str], ...]
    share: float
    rounds: int
    where: str


def stages(machine: Machine) -> list[Stage]:
    """What to run for ``machine``, which is this one; the shares add up to 1.

    Raises:
        MissingExtra: a GPU without PyTorch.
    """
    torch = importlib.util.find_spec("torch") is not None
    if machine.kind != "gpu":
        return _cpu(host.cpu(), torch=torch)
    if not torch:
        raise MissingExtra("measuring a GPU needs PyTorch with CUDA: pip install torch.")
    rounds = len(_ON_GPU) * child.ROUNDS
    arguments: dict[str, object] = {"device": "cuda", "size": _GPU_SIZE, "quantities": _ON_GPU}
    return [Stage("the GPU", _TORCH, arguments, (dict(os.environ),), 1.0, rounds, "")]


def _cpu(cpu: host.Cpu, *, torch: bool) -> list[Stage]:
    """Matmuls on all hardware threads and (where those share cores) on one thread per core, memory, and PyTorch."""
    share = 0.3 if torch else 0.45
    threads = sorted({cpu.threads, cpu.cores})
    size = _matmul_size(cpu.cache)
    found = []
    for count in threads:
        arguments: dict[str, object] = {"type": "matmul", "sizes": (_SHORT, size), "threads": count}
        part = share / len(threads)
        found.append(
            Stage("fp32 matmuls", _CPU, arguments, environments(count), part, child.ROUNDS, f", {count} threads")
        )
    where = f", {cpu.threads} threads"
    if torch:
        arguments = {"device": "cpu", "size": size, "quantities": _ON_CPU}
        rounds = len(_ON_CPU) * child.ROUNDS
        found.append(Stage("narrow matmuls", _TORCH, arguments, environments(cpu.threads)[:1], share, rounds, where))
    arguments = {"type": "bandwidth", "nbytes": _array_bytes(cpu), "threads": cpu.threads}
    rest = 1.0 - sum(stage.share for stage in found)
    found.append(Stage("memory", _CPU, arguments, environments(1), rest, 2 * child.ROUNDS, where))
    return found


def environments(threads: int) -> tuple[dict[str, str], ...]:
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
