"""The job behind `phasewise predict`: model and machine to a prediction."""

from __future__ import annotations

import time

import msgspec

from phasewise.errors import UsageError
from phasewise.jobs.envelope import envelope
from phasewise.jobs.subject import Subject
from phasewise.predict.predict import predict as predicted
from phasewise.predict.roofline import computes_in, roofs
from phasewise.predict.scaling import scaling
from phasewise.record.run import Run


def predict(subject: Subject, *, prompt: int, answer: int, batch: int) -> Run:
    """Predict, and return a Run that holds model, machine and prediction.

    Raises:
        UsageError: no accelerator, or one with no rate for the dtype that the model computes in.
    """
    started = time.perf_counter()
    model, machine = subject.load_model(), subject.load_machine()
    if model is None:
        raise UsageError("name a model: phasewise predict llama-3-8b --on h100-sxm.")
    if machine is None:
        raise UsageError("say what it runs on: --on h100-sxm, --on this, or --peak and --bandwidth together.")
    found = roofs(model, machine)
    if not found:
        raise UsageError(
            f"{machine.name} has no known rate for {' or '.join(model.compute)}: give --peak and --bandwidth."
        )
    roof = found[0]
    prediction = predicted(model, roof, prompt=prompt, answer=answer, batch=batch)
    return Run(
        envelope=envelope("predict", machine.name, started),
        model=model.facts(computes_in(model, machine, roof)),
        machine=machine,
        prediction=msgspec.structs.replace(prediction, scaling=scaling(model, roof, machine, prompt, answer)),
    )
