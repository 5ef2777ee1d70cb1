"""The job behind `phasewise judge`: a file or stated numbers, a model and a machine to a verdict."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

from phasewise.errors import UsageError
from phasewise.fix.reported import fix_reported
from phasewise.hardware import catalogue as accelerators
from phasewise.jobs.envelope import envelope, identity
from phasewise.jobs.saved import why_not
from phasewise.jobs.subject import Subject
from phasewise.judge import reported as judging
from phasewise.judge.reported import Ground
from phasewise.model import catalogue as models
from phasewise.model.load import load
from phasewise.model.model import Model
from phasewise.observe.results import stated
from phasewise.observe.results.read import read
from phasewise.observe.results.stated import Stated
from phasewise.predict.roofline import computes_in
from phasewise.record.observation import Phase
from phasewise.record.results import Reported, Row, Step
from phasewise.record.run import RUNS, Run, claimed, save

_SAME_BYTES = 0.03
"""How far the weights that a file names may be from the model's."""


class Finished(NamedTuple):
    """A run, the folder it was saved in, the exit code that it deserves, and why a file could not be saved, by name."""

    run: Run
    folder: Path
    exit_code: int
    unsaved: dict[str, str]


def judge(
    file: Path | None, said: Stated, subject: Subject, progress: Callable[[str, float], None], out: Path = RUNS
) -> Finished:
    """Judge ``file``, or what was stated, and save the run.

    Raises:
        UsageError: neither or both, a rate without a phase, or a file that is none.
        InputError: a folder that cannot be written to.
    """
    started = time.perf_counter()
    if file is not None and said.any:
        raise UsageError("a file and numbers of your own are two measurements: judge them one after the other.")
    reported = stated.reported(said) if file is None else read(file)
    if reported.kv and subject.kv is None and subject.model is not None:
        subject = msgspec.structs.replace(subject, kv=reported.kv)
    on = _ground(reported, subject, progress)
    reported = msgspec.structs.replace(reported, rows=tuple(_partly(row, on) for row in reported.rows))
    with claimed(identity(reported.file or "stated"), out) as folder:
        run = _judged(reported, on, started, folder.name)
        why = why_not(lambda: save(run, folder))
    assert run.results is not None
    doubted = any(check.voids and check.status == "failed" for check in reported.checks)
    return Finished(run, folder, 3 if run.results.alarms or doubted else 0, {"run.json": why} if why else {})


def _judged(reported: Reported, on: Ground, started: float, identity: str) -> Run:
    results = judging.judge(reported, on)
    return Run(
        envelope=envelope("judge", reported.file or "stated", started, identity=identity),
        model=on.model.facts(computes_in(on.model, on.machine, on.roofs[0]) if on.machine and on.roofs else "")
        if on.model
        else None,
        machine=on.machine,
        remedies=fix_reported(results, on),
        results=results,
    )


def _ground(reported: Reported, subject: Subject, progress: Callable[[str, float], None]) -> Ground:
    """Model and machine by the flags; else by the names in the file, as far as the catalogues know them."""
    missing, notes = [], []
    model, machine = subject.load_model(), subject.load_machine(progress)
    if model is None:
        model = _named_model(reported)
        if model is None:
            named = f" (the file calls it {reported.model[:80]!a})" if reported.model else ""
            missing.append(f"the model is not known{named}: name it with --model")
        else:
            notes.append(f"{reported.model} is taken as {model.name} of the catalogue; --model says otherwise.")
    if machine is None:
        machine = accelerators.named_by(reported.accelerators, reported.devices or subject.devices)
        if machine is None:
            named = f" (the file names {', '.join(reported.accelerators)[:80]!a})" if reported.accelerators else ""
            missing.append(f"the accelerator is not known{named}: name it with --on")
        else:
            notes.append(f"{machine.name} as the file names it; --on says otherwise.")
    elif reported.devices and reported.devices > 1 and subject.devices == 1:
        notes.append(f"The file says {reported.devices} devices, --devices says 1: is that right?")
    if machine and machine.devices > 1:
        steps = [step for row in reported.rows for step in (row.prefill, row.decode) if step]
        turns = (
            "The layers are divided over {} devices, which take turns: a step is held against as many as work at once."
        )
        evenly = "The work of a step is divided evenly over {} devices."
        notes.append((turns if any(step.at_once for step in steps) else evenly).format(machine.devices))
    return judging.ground(model, machine, tuple(missing), (*notes, *_weights(reported, model)))


def _partly(row: Row, on: Ground) -> Row:
    """``row`` as what it is on one accelerator: a pass of which a part ran elsewhere reaches at least its figure."""
    if row.gpu_layers is None or on.model is None or on.machine is None or on.machine.kind != "gpu":
        return row
    layers = on.model.architecture.layers
    if row.gpu_layers >= layers:
        return row
    if row.gpu_layers == 0:
        why = f"it ran on the CPU, not on {on.machine.name}: name that with --on this, or --peak and --bandwidth"
        missing: dict[Phase, str] = {
            **({"prefill": why} if row.prefill else {}),
            **({"decode": why} if row.decode else {}),
        }
        return msgspec.structs.replace(row, prefill=None, decode=None, missing={**row.missing, **missing})
    why = "; ".join(row.notes) or f"only {row.gpu_layers} of {layers} layers were on the accelerator"
    return msgspec.structs.replace(row, prefill=_at_least(row.prefill, why), decode=_at_least(row.decode, why))


def _at_least(step: Step | None, why: str) -> Step | None:
    return step and msgspec.structs.replace(step, least=True, notes=(*step.notes, why))


def _named_model(reported: Reported) -> Model | None:
    """The catalogue's model of the name in the file, whole or behind its last slash. Nothing is guessed or opened."""
    name = reported.model.rstrip("/")
    row = models.find(name) or models.find(name.rpartition("/")[2])
    return load(row.name, kv=reported.kv or None) if row else None


def _weights(reported: Reported, model: Model | None) -> list[str]:
    theirs = reported.weight_bytes
    if model is None or theirs is None or abs(theirs / model.resident_bytes - 1) <= _SAME_BYTES:
        return []
    return [
        f"The file says {theirs / 1e9:,.2f} GB of weights, {model.name} in {model.weights_format} has "
        f"{model.resident_bytes / 1e9:,.2f} GB: are --model and --weights right?"
    ]
