"""One phase of one run, as the remedies see it, and the arithmetic that they share."""

from __future__ import annotations

from typing import Literal

import msgspec

from phasewise.model.model import Model
from phasewise.predict.roofline import Roof
from phasewise.record.judgement import Bound, PhaseVerdict
from phasewise.record.machine import Machine
from phasewise.record.observation import Phase, PrefillFit
from phasewise.record.quantity import Quantity
from phasewise.record.remedies import Rejected, Remedy
from phasewise.units import show

MATERIAL = 0.02
"""A remedy that saves less than this fraction of its phase is named among those that would not help."""


class Patient(msgspec.Struct, frozen=True, kw_only=True):
    """A judged phase.

    Attributes:
        model, roof, machine: what ran where, and the ceilings of the verdict.
        verdict: of the phase, with its step taken apart.
        fit: TTFT over length, for prefill.
        request_s: seconds of the phase in the stated request.
        total_s: seconds of the stated request, or of the phase where the other was not measured.
    """

    model: Model
    roof: Roof
    machine: Machine
    verdict: PhaseVerdict
    request_s: float
    total_s: float
    fit: PrefillFit | None = None

    @property
    def phase(self) -> Phase:
        """Which phase."""
        return self.verdict.phase

    @property
    def at(self) -> float:
        """Prompt length (prefill) or context (decode) of the step."""
        return self.verdict.at_tokens

    @property
    def step(self) -> float:
        """Measured seconds of the step."""
        return self.verdict.step.value

    @property
    def floor(self) -> float:
        """Seconds of the step that the work explains."""
        return self._seconds("compute") + self._seconds("memory")

    @property
    def overhead(self) -> float:
        """Seconds of the step that do not grow with work."""
        return self._seconds("overhead")

    @property
    def kernel(self) -> float:
        """Seconds of the step beyond floor and overhead."""
        return self._seconds("kernel")

    def _seconds(self, name: Bound) -> float:
        return sum(share.seconds.value for share in self.verdict.shares if share.name == name)

    def share(self, name: Bound) -> float:
        """Fraction of the step that is ``name``."""
        return self._seconds(name) / self.step if self.step else 0.0


def floor_change(patient: Patient, name: str, before: float, after: float, why: str, verify: str) -> Remedy | Rejected:
    """A change that takes the step's floor from ``before`` to ``after`` seconds.

    The saving applies to the part of the step that the floor explains; at best the kernels' excess shrinks with it.
    """
    ratio = after / before
    saved = patient.floor * (1 - ratio)
    best = saved + patient.kernel * (1 - ratio)
    return remedy(patient, name, saved, low=saved, high=best, why=why, verify=verify)


def remedy(
    patient: Patient,
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
    scale = patient.request_s / patient.step
    total = saved * scale
    if total < MATERIAL * patient.request_s:
        return reject(
            patient, name, f"it would save {show(max(0.0, total), 's')} of {show(patient.request_s, 's')}: {why}"
        )
    saves = Quantity(
        value=total,
        unit="s",
        provenance="predicted",
        source=f"{patient.roof.basis} ceilings, applied to the measured {patient.phase} step",
        low=max(0.0, min(low, saved) * scale),
        high=min(patient.request_s, max(high, saved) * scale),
    )
    return Remedy(
        name=name,
        phase=patient.phase,
        saves=saves,
        saves_share=total / patient.total_s,
        step_before=patient.step,
        step_after=patient.step - saved,
        why=why,
        verify=verify,
        buys=buys,
    )


def reject(patient: Patient, name: str, reason: str) -> Rejected:
    """``name`` would not help here because of ``reason``."""
    return Rejected(name=name, phase=patient.phase, reason=reason)
