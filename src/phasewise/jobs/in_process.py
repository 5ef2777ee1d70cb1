"""``judged``: MFU and MBU of both phases of a model that was profiled in this process."""

from __future__ import annotations

import msgspec

from phasewise.fitting import median_interval
from phasewise.hardware import ceilings, detect
from phasewise.jobs.subject import THIS, Subject
from phasewise.judge.utilisation import first, whole
from phasewise.mark.profiled import Profile, Timed
from phasewise.model import work
from phasewise.model.load import of_config
from phasewise.model.model import Model
from phasewise.model.work import Work
from phasewise.predict.roofline import Roof, floor, roofs
from phasewise.record.judgement import Utilisation
from phasewise.record.machine import Machine
from phasewise.record.observation import Phase
from phasewise.record.quantity import Quantity, measured, predicted

_DTYPES = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}


class JudgedPhase(msgspec.Struct, frozen=True, kw_only=True):
    """One phase: seconds of a pass, its floor, and how far it uses the machine.

    ``mfu`` and ``mbu`` are those under the most trusted ceilings, None when none are known; ``utilisations`` has all.
    """

    phase: Phase
    step: Quantity
    floor: Quantity | None
    mfu: Quantity | None
    mbu: Quantity | None
    utilisations: tuple[Utilisation, ...]

    def __str__(self) -> str:
        told = [f"{name} {figure}" for name, figure in (("MFU", self.mfu), ("MBU", self.mbu)) if figure]
        at_least = [f"at least {self.floor}"] if self.floor else []
        return f"{self.phase}: {', '.join([str(self.step), *at_least, *told])}"


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """Both phases, the machine, and why a utilisation is missing (empty when none is)."""

    prefill: JudgedPhase
    decode: JudgedPhase
    machine: str
    why_null: str

    def __str__(self) -> str:
        return "\n".join([str(self.prefill), str(self.decode), *([self.why_null] if self.why_null else [])])


def judged(profile: Profile, *, on: str = THIS, devices: int = 1) -> Judged:
    """Judge what ``phasewise.instrument(model).profile()`` measured.

    Args:
        profile: what it gave.
        on: a catalogue name; ``this`` for the CPU or the GPU that the model is on, with ceilings measured here.
        devices: how many of them the model is spread over.

    Raises:
        UsageError: no accelerator of that name, or a model that is not modelled yet.
    """
    machine = _machine(profile, on, devices)
    dtype = _DTYPES.get(profile.dtype)
    model, why = None, "no MFU or MBU: the model has no config of transformers, or a dtype that is not judged"
    if profile.config and dtype:
        model, why = of_config(profile.config, str(profile.config.get("model_type", "")), dtype), ""
    found = roofs(model, machine) if model else ()
    if model and not found:
        why = f"no MFU or MBU: no rate is known for {' or '.join(model.compute)} on {machine.name}"
    return Judged(
        prefill=_phase("prefill", profile.prefill, model, found),
        decode=_phase("decode", profile.decode, model, found),
        machine=machine.name,
        why_null=why,
    )


def _machine(profile: Profile, on: str, devices: int) -> Machine:
    if on.lower() == THIS and profile.device == "cpu":
        return ceilings.with_measured(detect.this_cpu())
    machine = Subject(on=on, devices=devices).load_machine()
    assert machine is not None
    return machine


def _phase(phase: Phase, timed: Timed, model: Model | None, found: tuple[Roof, ...]) -> JudgedPhase:
    seen = median_interval(timed.seconds)
    step = measured(seen.value, "s", f"median of {len(timed.seconds)} passes", seen.low, seen.high)
    if model is None or not found:
        return JudgedPhase(phase=phase, step=step, floor=None, mfu=None, mbu=None, utilisations=())
    done = _work(phase, timed, model)
    at = float(timed.tokens) if phase == "prefill" else timed.context
    rows = tuple(row for roof in found for row in whole(roof, at, float(done.flops), float(done.bytes), step))
    return JudgedPhase(
        phase=phase,
        step=step,
        floor=predicted(float(floor(done, found[0])), "s", f"{found[0].basis} ceilings"),
        mfu=first(rows, "mfu"),
        mbu=first(rows, "mbu"),
        utilisations=rows,
    )


def _work(phase: Phase, timed: Timed, model: Model) -> Work:
    if phase == "prefill":
        return work.prefill(model, float(timed.tokens), float(timed.requests))
    return work.decode(model, timed.context, float(timed.requests))
