"""The job behind `phasewise predict`: model and machine to a prediction."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

import msgspec

from phasewise.errors import UsageError
from phasewise.jobs.envelope import envelope
from phasewise.jobs.subject import Subject
from phasewise.model.model import Model
from phasewise.predict.parallel import link
from phasewise.predict.parallel import prediction as spread_out
from phasewise.predict.parallel.layout import Layout, layout
from phasewise.predict.predict import predict as predicted
from phasewise.predict.roofline import computes_in, roofs
from phasewise.predict.scaling import scaling
from phasewise.predict.whatif.changes import read
from phasewise.predict.whatif.setup import Setup
from phasewise.predict.whatif.whatif import what_if
from phasewise.record.machine import Machine
from phasewise.record.parallel import Parallel
from phasewise.record.prediction import Prediction
from phasewise.record.run import Run


class Over(msgspec.Struct, frozen=True, kw_only=True):
    """The flags that say how devices share a model, as the user wrote them."""

    tp: int | None = None
    pp: int = 1
    ep: int = 1
    dp_attention: int = 1
    lm_head: Literal["sharded", "replicated"] = "sharded"
    link: str | None = None

    def layout(self, devices: int) -> Layout:
        """The layout of ``--devices`` and these."""
        return layout(devices, tp=self.tp, pp=self.pp, ep=self.ep, dp=self.dp_attention, head=self.lm_head)


def predict(
    subject: Subject,
    *,
    prompt: int,
    answer: int,
    batch: int,
    over: Over | None = None,
    changes: tuple[str, ...] = (),
) -> Run:
    """Predict, and return a Run that holds model, machine and prediction, and what ``changes`` would do.

    Raises:
        UsageError: no accelerator, one with no rate for the dtype that the model computes in, a layout that the model
            cannot have, or a change that is none.
    """
    started = time.perf_counter()
    asked, over = read(changes), over or Over()
    model, machine = subject.load_model(), subject.load_machine()
    if model is None:
        raise UsageError("name a model: phasewise predict llama-3-8b --on h100-sxm.")
    if machine is None:
        raise UsageError("say what it runs on: --on h100-sxm, --on this, or --peak and --bandwidth together.")
    spread = over.layout(subject.devices)
    setup = Setup(
        variant=_variant(subject, model),
        machine=machine,
        prompt=prompt,
        answer=answer,
        batch=batch,
        layout=spread,
        link=link.stated(over.link, machine) if over.link else link.of(machine),
    )
    roof = setup.roof
    machine = _shared(machine, spread, stated=over.tp is not None)
    prediction, parallel = _predicted(setup, machine, shown=over != Over())
    return Run(
        envelope=envelope("predict", machine.name, started),
        model=model.facts(computes_in(model, machine, roof)),
        machine=machine,
        prediction=msgspec.structs.replace(prediction, scaling=scaling(model, roof, machine, prompt, answer)),
        parallel=parallel,
        what_if=what_if(setup, asked) if asked else None,
    )


def _predicted(setup: Setup, machine: Machine, *, shown: bool) -> tuple[Prediction, Parallel | None]:
    """The prediction; with its devices' side where there are several, or should be, or where that is asked for."""
    whole = roofs(setup.model, machine)[0]
    request = {"prompt": setup.prompt, "answer": setup.answer, "batch": setup.batch}
    if setup.layout.devices == 1 and setup.fits is not False and not shown:
        return predicted(setup.model, whole, **request), None
    memory = machine.memory_bytes.value if machine.memory_bytes else None
    return spread_out.predict(setup.spread, whole, memory=memory, **request)


def _shared(machine: Machine, spread: Layout, *, stated: bool) -> Machine:
    """``machine`` with the devices of the layout, and a note of what they are taken to do."""
    many = spread.devices > 1
    why = "" if stated or spread.tp == 1 else " (what --devices means without --tp)"
    note = (f"{spread.devices} devices share the model: {spread}{why}.",) if many else ()
    return msgspec.structs.replace(machine, devices=spread.devices, notes=(*machine.notes, *note))


def _variant(subject: Subject, model: Model) -> Callable[[str | None, str | None], Model]:
    """The subject's model in other formats; its own where none is given."""

    def variant(weights: str | None, kv: str | None) -> Model:
        if weights is None and kv is None:
            return model
        other = msgspec.structs.replace(subject, weights=weights or subject.weights, kv=kv or subject.kv)
        return other.load_model() or model

    return variant
