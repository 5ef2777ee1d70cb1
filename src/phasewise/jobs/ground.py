"""What runs where: the model and the machine of a target, or why a utilisation cannot be given."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

from phasewise.engines import embedded
from phasewise.engines.base import Engine
from phasewise.hardware import ceilings, detect
from phasewise.jobs.target import Connection, model_file
from phasewise.model.formats import SIXTEEN
from phasewise.model.load import load
from phasewise.model.model import Model
from phasewise.predict.roofline import roofs
from phasewise.record.machine import Machine
from phasewise.record.target import Target


class Ground(NamedTuple):
    """Model and machine, and why there is no utilisation when one of them is unknown; empty when there is."""

    model: Model | None
    machine: Machine | None
    why_null: str


def what_runs(
    target: str | None,
    connection: Connection,
    stated: Model | None,
    machine: Machine | None,
    engine: Engine,
    progress: Callable[[str, float], None],
) -> Ground:
    """Model and machine of ``target``: as stated, else as our own engine has them."""
    file = model_file(target)
    model = stated or (_as_run(file, engine.target) if file else None)
    on_gpu = engine.target.settings.get("device", "cpu").startswith("cuda")
    if file and machine is None:
        # Our own engine computes on the CPU of this machine, whatever else is in it, unless it says that it does not.
        here = detect.this_machine() if on_gpu else detect.this_cpu()
        machine = ceilings.with_measured(here, lambda doing, done: progress(doing, done))
    if file and machine is not None and machine.local and not on_gpu:
        machine = _with_threads(machine, connection.threads)
    if machine is not None and machine.devices > 1 and engine.target.engine == "llama.cpp":
        machine = _in_turns(machine)
    missing = []
    if model is None:
        missing.append(f"--model (the server calls it {engine.target.served_model!r})")
    if machine is None:
        missing.append("--on (an accelerator's name, or `this` for this machine)")
    if missing:
        return Ground(model, machine, f"unknown without {' and '.join(missing)}")
    if model and machine and not roofs(model, machine):
        dtypes = " or ".join(model.compute)
        why = f"no rate is known for {dtypes} on {machine.name}: give --peak and --bandwidth"
        return Ground(model, machine, why)
    return Ground(model, machine, "")


def _as_run(file: Path, target: Target) -> Model:
    """The model in ``file``, in the dtype that it runs in: a model in process may have been given another."""
    model, dtype = load(str(file)), target.settings.get("dtype")
    if dtype is None or dtype == model.weights_format or model.weights_format not in SIXTEEN:
        return model
    return load(str(file), weights=dtype, kv=dtype)


def _in_turns(machine: Machine) -> Machine:
    """``machine`` with a note on what its server does not say: whether its devices work at the same time."""
    many = machine.devices
    note = (
        "llama.cpp's devices take turns unless it was started with --split-mode row, and it does not say which: decode "
        f"is held against all {many}, of which it then reaches 1/{many} at most. --devices 1 holds it against one."
    )
    return msgspec.structs.replace(machine, notes=(*machine.notes, note))


def _with_threads(machine: Machine, threads: int | None) -> Machine:
    """``machine`` with a note when our engine was given fewer threads than the ceilings were measured on."""
    cores = embedded.usable_cores()
    if threads is None or threads >= cores:
        return machine
    note = f"The ceilings are those of all {cores} usable cores; the engine ran on {threads} (--threads)."
    return msgspec.structs.replace(machine, notes=(*machine.notes, note))
