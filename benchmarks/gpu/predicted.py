"""What `phasewise predict` says of a point, and how far a measurement is from it."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
from plan import Plan, Point

from phasewise.errors import UsageError
from phasewise.fitting import median_interval
from phasewise.hardware import ceilings, detect
from phasewise.judge.utilisation import first, whole
from phasewise.model.load import of_config
from phasewise.model.model import Model
from phasewise.predict.predict import decode_step, predict, prefill_step
from phasewise.predict.roofline import Roof, roofs
from phasewise.record.machine import Machine
from phasewise.record.prediction import Prediction, StepPrediction
from phasewise.record.quantity import measured


class Subject(NamedTuple):
    """A model and the machine it runs on; ``roofs`` are the measured ceilings, then the datasheet's where known."""

    model: Model
    machine: Machine
    roofs: tuple[Roof, ...]

    def prediction(self, plan: Plan) -> Prediction:
        """Of the plan's request, under the measured ceilings."""
        return predict(self.model, self.roofs[0], prompt=plan.prompt, answer=plan.answer)

    def floors(self, point: Point) -> dict[str, StepPrediction]:
        """The step's prediction by the basis of its ceilings."""
        step = prefill_step if point.phase == "prefill" else decode_step
        return {roof.basis: step(self.model, roof, point.tokens, point.batch) for roof in self.roofs}


def subject(plan: Plan, device: str, seconds: float) -> Subject:
    """The plan's model on this machine, whose ceilings are measured now.

    Raises:
        UsageError: a GPU that NVML does not show.
    """
    here = detect.this_machine() if device == "cuda" else detect.this_cpu()
    if device == "cuda" and here.kind != "gpu":
        raise UsageError("NVML shows no GPU: pip install nvidia-ml-py, or give --device cpu.")
    machine = ceilings.ensure(here, seconds, again=True)
    model = of_config(plan.config, plan.shape, "bf16")
    return Subject(model, machine, roofs(model, machine))


def row(subject: Subject, point: Point, mode: str, seconds: tuple[float, ...]) -> dict[str, Any]:
    """A measured point beside its floors, as it is saved."""
    seen = median_interval(seconds)
    time = measured(seen.value, "s", f"median of {len(seconds)} passes", seen.low, seen.high)
    floors = subject.floors(point)
    uses = [
        use
        for roof in subject.roofs
        for use in whole(roof, point.tokens, floors[roof.basis].flops, floors[roof.basis].bytes, time)
    ]
    found = {yardstick: first(tuple(uses), yardstick) for yardstick in ("mfu", "mbu")}
    return {
        **point._asdict(),
        "mode": mode,
        "passes": len(seconds),
        "seconds": {"value": seen.value, "low": seen.low, "high": seen.high},
        "predicted": msgspec.to_builtins(floors),
        **{yardstick: one and one.value for yardstick, one in found.items()},
        "utilisations": [{"yardstick": u.yardstick, "basis": u.basis, "value": u.value.value} for u in uses],
    }
