"""Which machine phasewise runs on: its NVIDIA GPUs by NVML, else its CPU.

The unknown is unknown, and nothing fails but a bad row of the user's own.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from phasewise.errors import InputError, UsageError
from phasewise.hardware import catalogue, host
from phasewise.record.machine import Machine
from phasewise.record.quantity import reported
from phasewise.units import show


class Gpu(NamedTuple):
    """One GPU, or one MIG slice of one, as its driver describes it: bytes of memory and watts where it says them."""

    name: str
    memory: int | None
    power_limit: float | None
    sliced: bool


def this_machine() -> Machine:
    """The GPU that this machine has, with its datasheet ceilings when the driver's name for it is in the catalogue.

    A MIG slice and a GPU that is not in the catalogue have no ceilings, and neither has a machine with different GPUs:
    notes say why. A machine without an NVIDIA GPU is its CPU.
    """
    gpus = _gpus()
    return _of_gpus(gpus) if gpus else this_cpu()


def this_cpu() -> Machine:
    """The CPU of this machine, whatever else it has.

    It has no datasheet ceilings even when the catalogue knows its name: a virtual machine or a container has only a
    part of it. It is judged against ceilings measured here.
    """
    cpu = host.cpu()
    notes = [f"{cpu.threads} hardware threads on {cpu.cores} cores of {cpu.name} are usable."]
    if cpu.virtual:
        notes.append(
            "It is a virtual machine: what it reaches, memory bandwidth above all, varies with its neighbours."
        )
    return Machine(
        name=cpu.name,
        kind="cpu",
        memory_bytes=reported(float(cpu.memory), "B", "operating system") if cpu.memory else None,
        local=True,
        notes=tuple(notes),
    )


def _of_gpus(gpus: list[Gpu]) -> Machine:
    names = list(dict.fromkeys(gpu.name for gpu in gpus))
    if len(names) > 1:
        note = f"This machine has different GPUs ({', '.join(names)}): say with --on which of them runs the model."
        return Machine(name=f"{len(gpus)} different GPUs", kind="gpu", local=True, notes=(note,))
    gpu, machine = gpus[0], _described(gpus[0])
    notes = list(machine.notes)
    if len(gpus) > 1:
        notes.append(f"This machine has {len(gpus)} x {gpu.name}: say with --devices how many run the model.")
    limit, usual = gpu.power_limit, machine.power_limit_w
    if limit and usual and limit < usual.value:
        notes.append(
            f"Its power limit is {show(limit, 'W')}, under the datasheet's {show(usual.value, 'W')}: "
            "it cannot hold the datasheet's compute rate."
        )
    return msgspec.structs.replace(
        machine,
        memory_bytes=reported(float(gpu.memory), "B", "NVML") if gpu.memory else machine.memory_bytes,
        power_limit_w=reported(limit, "W", "NVML, enforced limit") if limit else machine.power_limit_w,
        local=True,
        notes=tuple(notes),
    )


def _described(gpu: Gpu) -> Machine:
    """The catalogue's row for ``gpu``, or a machine without ceilings and the reason."""
    figures = "rates are given in TFLOP/s and GB/s, without a percentage; --peak and --bandwidth state its ceilings"
    if gpu.sliced:
        note = f"{gpu.name} is a MIG slice, for which the card's datasheet does not hold: {figures}."
        return Machine(name=gpu.name, kind="gpu", notes=(note,))
    try:
        return catalogue.machine(catalogue.find(gpu.name))
    except InputError:
        raise
    except UsageError:
        note = f"{gpu.name} is not in the catalogue: {figures}."
        return Machine(name=gpu.name, kind="gpu", notes=(note,))


def _gpus() -> list[Gpu]:
    """Every GPU that NVML shows, each MIG slice in place of its card; empty without NVML, driver or GPU."""
    try:
        import pynvml
    except ImportError:
        return []
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return []
    try:
        handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
        return [gpu for handle in handles for gpu in _slices(pynvml, handle) or [_gpu(pynvml, handle, sliced=False)]]
    except pynvml.NVMLError:
        return []
    finally:
        pynvml.nvmlShutdown()


def _slices(nvml: Any, card: Any) -> list[Gpu]:
    """The MIG slices of ``card``: the card itself, marked as sliced, when MIG is on and none can be seen."""
    mode = _ask(nvml, nvml.nvmlDeviceGetMigMode, card)
    if not mode or mode[0] != nvml.NVML_DEVICE_MIG_ENABLE:
        return []
    slots = range(_ask(nvml, nvml.nvmlDeviceGetMaxMigDeviceCount, card) or 0)
    slices = [_ask(nvml, nvml.nvmlDeviceGetMigDeviceHandleByIndex, card, slot) for slot in slots]
    return [_gpu(nvml, part, sliced=True) for part in slices if part is not None] or [_gpu(nvml, card, sliced=True)]


def _gpu(nvml: Any, handle: Any, *, sliced: bool) -> Gpu:
    name = _ask(nvml, nvml.nvmlDeviceGetName, handle) or "unknown NVIDIA GPU"
    text = name.decode(errors="replace") if isinstance(name, bytes) else str(name)
    memory = _ask(nvml, nvml.nvmlDeviceGetMemoryInfo, handle)
    milliwatts = None if sliced else _ask(nvml, nvml.nvmlDeviceGetEnforcedPowerLimit, handle)
    return Gpu(
        name="".join(c for c in text if c.isprintable()),
        memory=int(memory.total) if memory else None,
        power_limit=milliwatts / 1000 if milliwatts else None,
        sliced=sliced,
    )


def _ask(nvml: Any, question: Any, *about: Any) -> Any:
    """NVML's answer, or None when this GPU has none."""
    try:
        return question(*about)
    except nvml.NVMLError:
        return None
