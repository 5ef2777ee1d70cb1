"""The job behind `phasewise calibrate`, and what `predict --calibrated` takes from it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from phasewise.errors import UsageError
from phasewise.jobs.predict import Over
from phasewise.jobs.saved import why_not
from phasewise.jobs.subject import Subject
from phasewise.jobs.target import model_file
from phasewise.judge.calibrate import apply, points
from phasewise.judge.calibrate import calibrate as fitting
from phasewise.model.load import load as load_model
from phasewise.model.model import Model
from phasewise.predict.parallel import link
from phasewise.predict.parallel.spread import Spread
from phasewise.predict.priors import class_of, prior
from phasewise.predict.roofline import Roof, roofs
from phasewise.record import calibration as calibrations
from phasewise.record import run as runs
from phasewise.record.calibration import Calibration, Point
from phasewise.record.machine import Machine
from phasewise.record.run import Run

PRIOR = "prior"
"""In place of a name: what is assumed of the accelerator's class."""

_SAME_BYTES = 0.01
"""How far the weights of a model that is loaded again may be from those that the run had."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What to fit and how to keep it; see `phasewise calibrate --help`."""

    sources: tuple[Path, ...]
    subject: Subject = Subject()
    name: str | None = None
    engine: str = ""


class Calibrating(NamedTuple):
    """A calibration, the file that it is kept in, and why it is not; empty when it is."""

    calibration: Calibration
    file: Path
    why_not: str


def calibrate(options: Options) -> Calibrating:
    """Fit the points of every source and keep the result by name.

    Raises:
        UsageError: nothing to fit, or sources that are not of one model on one machine.
        ImpossibleMeasurement: a point that is faster than its floor.
    """
    if options.name is not None:
        calibrations.check_name(options.name)
    csvs = [path for path in options.sources if path.suffix.lower() == ".csv"]
    loaded = [runs.load(path) for path in options.sources if path not in csvs]
    found: list[Point] = [point for path in csvs for point in points.from_csv(path)]
    notes: list[str] = []
    for run in loaded:
        seen, about = points.from_run(run)
        found += seen
        notes += about
    if not found:
        raise UsageError(
            f"there are no points to fit: {notes[0] if notes else 'nothing was measured in what is named.'}"
        )
    model, machine = _model(options.subject, loaded), _machine(options.subject, loaded)
    subject = fitting.Subject(
        name=options.name or _slug(f"{model.name}-{machine.name}"),
        engine=options.engine or ", ".join(dict.fromkeys(run.target.engine for run in loaded if run.target)),
        model=model,
        machine=machine,
        link=link.of(machine),
        prior=prior(class_of(machine)),
    )
    result = fitting.calibrate(subject, points.merged(found), notes)
    unkept = why_not(lambda: calibrations.save(result))
    return Calibrating(result, calibrations.file_of(result.name), unkept)


def with_calibration(run: Run, name: str, subject: Subject, over: Over) -> Run:
    """The prediction ``run`` of ``subject``, with what the calibration kept by ``name``, or the prior, says of it.

    Raises:
        UsageError: no calibration of that name, one that is relative to other ceilings, or pipeline parallelism.
    """
    model, machine = subject.load_model(), subject.load_machine()
    if model is None or machine is None or run.prediction is None:
        raise UsageError("--calibrated needs a model and a machine: phasewise predict llama-3-8b --on h100-sxm.")
    if over.pp > 1:
        raise UsageError("a calibration does not know what pipeline stages wait for: drop --pp or --calibrated.")
    layout = over.layout(subject.devices)
    joined = link.stated(over.link, machine) if over.link else link.of(machine)
    if name == PRIOR:
        spread = Spread(model, layout, fitting.roof_of(model, machine), joined)
        outlook = apply.from_prior(prior(class_of(machine)))
    else:
        kept = calibrations.load(name)
        spread = Spread(model, layout, _same_basis(kept, model, machine), joined)
        outlook = apply.from_calibration(kept, spread, machine.name)
    return msgspec.structs.replace(run, calibrated=apply.apply(outlook, spread, run.prediction))


def _same_basis(kept: Calibration, model: Model, machine: Machine) -> Roof:
    for roof in roofs(model, msgspec.structs.replace(machine, devices=1)):
        if roof.basis == kept.basis:
            return roof
    raise UsageError(
        f"{kept.name} was fitted against {kept.basis} ceilings, which {machine.name} does not have here: predict with "
        "those, or calibrate again."
    )


def _model(subject: Subject, loaded: Sequence[Run]) -> Model:
    stated = subject.load_model()
    if stated is not None:
        return stated
    facts = [run.model for run in loaded]
    if not facts or None in facts:
        raise UsageError(
            "say what was measured with --model: a catalogue name, a config.json, a directory or a GGUF file."
        )
    if len({one.name for one in facts if one}) > 1:
        names = ", ".join(sorted({one.name for one in facts if one}))
        raise UsageError(f"the runs are of different models ({names}): calibrate each on its own.")
    return _again(loaded[0])


def _again(run: Run) -> Model:
    """The model of ``run``, loaded from where the run had it."""
    assert run.model is not None
    target = run.target.name if run.target else ""
    file = (
        model_file(None if target == "embedded" else target)
        if target == "embedded" or target.startswith("gguf:")
        else None
    )
    try:
        found = load_model(str(file) if file else run.model.name)
    except UsageError:
        found = None
    if found is None or abs(found.resident_bytes / run.model.weight_bytes.value - 1) > _SAME_BYTES:
        raise UsageError(
            f"{run.envelope.id} does not say where its model lies: give --model, and --weights where they differ."
        )
    return found


def _machine(subject: Subject, loaded: Sequence[Run]) -> Machine:
    stated = subject.load_machine()
    if stated is not None:
        return stated
    machines = [run.machine for run in loaded if run.machine]
    if not machines:
        raise UsageError("say what it ran on: --on h100-sxm, --on this, or --peak and --bandwidth together.")
    if len({one.name for one in machines}) > 1:
        names = ", ".join(sorted({one.name for one in machines}))
        raise UsageError(f"the runs are of different machines ({names}): calibrate each on its own.")
    return machines[0]


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-.")[:80] or "calibration"
