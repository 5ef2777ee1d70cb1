"""One phase of one run or trace, as the remedies see it, and the arithmetic that they share."""

from __future__ import annotations

from typing import Literal

import msgspec

from phasewise.model import work
from phasewise.model.model import Model
from phasewise.model.passes import Pass
from phasewise.predict.roofline import Roof
from phasewise.predict.roofline import floor as least_time
from phasewise.record.judgement import Bound
from phasewise.record.machine import Machine
from phasewise.record.observation import PrefillFit
from phasewise.record.quantity import Quantity
from phasewise.record.remedies import Rejected, Remedy
from phasewise.record.trace import TracePhase
from phasewise.units import show

MATERIAL = 0.02
"""A remedy that saves less than this fraction of its phase is named among those that would not help."""


class Timed(msgspec.Struct, frozen=True, kw_only=True):
    """The time of a phase.

    Attributes:
        phase: which.
        step: measured seconds of the step.
        parts: of it, seconds by what they are bound on.
        request_s: seconds of the phase in the stated request (in the trace).
        total_s: seconds of the stated request (of all phases of the trace), or of the phase where the other was not
            measured.
        source: what a saving is computed from, one phrase.
    """

    phase: TracePhase
    step: float
    parts: dict[Bound, float]
    request_s: float
    total_s: float
    source: str

    @property
    def floor(self) -> float:
        """Seconds of the step that the work explains."""
        return self.parts.get("compute", 0.0) + self.parts.get("memory", 0.0)

    @property
    def overhead(self) -> float:
        """Seconds of the step that do not grow with work."""
        return self.parts.get("overhead", 0.0)

    @property
    def kernel(self) -> float:
        """Seconds of the step that kernels take beyond the floor."""
        return self.parts.get("kernel", 0.0)

    @property
    def communication(self) -> float:
        """Seconds of the step in which devices talk."""
        return self.parts.get("communication", 0.0)

    def share(self, name: Bound) -> float:
        """Fraction of the step that is ``name``."""
        return self.parts.get(name, 0.0) / self.step if self.step else 0.0


class Patient(Timed, frozen=True, kw_only=True):
    """A phase whose work is known.

    Attributes:
        model, roof, machine: what ran where, and the ceilings of the verdict.
        passes: what the step does.
        at: new tokens (prefill) or context (decode) of the step.
        bound: of the verdict.
        fit: TTFT over length, for a prefill that was measured at several.
        attention_s: seconds of the step in attention kernels, where a trace shows them.
    """

    model: Model
    roof: Roof
    machine: Machine
    passes: tuple[Pass, ...]
    at: float
    bound: Bound
    fit: PrefillFit | None = None
    attention_s: float | None = None

    @property
    def work(self) -> work.Work:
        """What the step must do."""
        return work.step(self.model, *self.passes)

    @property
    def batch(self) -> float:
        """Requests of the step."""
        return float(sum(one.batch for one in self.passes))

    def least(self, model: Model | None = None, passes: tuple[Pass, ...] | None = None) -> float:
        """Least seconds of the step; with another model, or other passes, where they are given."""
        return float(least_time(work.step(model or self.model, *(passes or self.passes)), self.roof))


def floor_change(patient: Patient, name: str, before: float, after: float, why: str, verify: str) -> Remedy | Rejected:
    """A change that takes the step's floor from ``before`` to ``after`` seconds.

    The saving applies to the part of the step that the floor explains; at best the kernels' excess shrinks with it.
    """
    ratio = after / before
    saved = patient.floor * (1 - ratio)
    best = saved + patient.kernel * (1 - ratio)
    return remedy(patient, name, saved, low=saved, high=best, why=why, verify=verify)


def remedy(
    of: Timed,
    name: str,
    saved: float,
    *,
    low: float,
    high: float,
    why: str,
    verify: str,
    buys: Literal["latency", "throughput"] = "latency",
) -> Remedy | Rejected:
    """A remedy that saves ``saved`` seconds a step (``low`` to ``high``), or its rejection if that is too little."""
    scale = of.request_s / of.step
    total = saved * scale
    if total < MATERIAL * of.request_s:
        return reject(of, name, f"it would save {show(max(0.0, total), 's')} of {show(of.request_s, 's')}: {why}")
    saves = Quantity(
        value=total,
        unit="s",
        provenance="predicted",
        source=of.source,
        low=max(0.0, min(low, saved) * scale),
        high=min(of.request_s, max(high, saved) * scale),
    )
    return Remedy(
        name=name,
        phase=of.phase,
        saves=saves,
        saves_share=total / of.total_s,
        step_before=of.step,
        step_after=of.step - saved,
        why=why,
        verify=verify,
        buys=buys,
    )


def reject(of: Timed, name: str, reason: str) -> Rejected:
    """``name`` would not help here because of ``reason``."""
    return Rejected(name=name, phase=of.phase, reason=reason)
