"""A fast attention kernel for long prompts."""

from __future__ import annotations

from phasewise.fix.patient import Patient, reject, remedy
from phasewise.model import work
from phasewise.record.remedies import Rejected, Remedy
from phasewise.units import show

NAME = "fast attention kernel"
MATERIAL_SHARE = 0.1
"""Share of prefill's FLOPs below which attention is not worth a change."""


def attention_kernel(patient: Patient) -> Remedy | Rejected:
    """The measured quadratic part of TTFT falls to attention's own floor."""
    step = work.prefill(patient.model, patient.at)
    share = float(step.attention_flops) / float(step.flops)
    if share < MATERIAL_SHARE:
        return reject(
            patient, NAME, f"attention is {show(share, '1', 2)} of prefill's FLOPs at {patient.at:,.0f} tokens"
        )
    if patient.fit is None or patient.fit.per_token2.value <= 0:
        return reject(
            patient, NAME, "TTFT shows no part that grows with the square of the prompt, so attention is not slow"
        )
    floor = float(step.attention_flops) / patient.roof.compute.value
    quadratic = patient.fit.per_token2
    low, high = quadratic.low or 0.0, quadratic.high or quadratic.value
    square = patient.at * patient.at
    return remedy(
        patient,
        NAME,
        max(0.0, min(quadratic.value * square - floor, patient.kernel)),
        low=max(0.0, low * square - floor),
        high=min(max(0.0, high * square - floor), patient.kernel),
        why=f"attention is {show(share, '1', 2)} of the FLOPs, and the part of TTFT that grows with the square of the "
        f"prompt takes {show(quadratic.value * square, 's')} against a floor of {show(floor, 's')}",
        verify="switch the attention backend and profile again: the quadratic coefficient of TTFT should fall",
    )
