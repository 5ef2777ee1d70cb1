"""A fast attention kernel for long prompts."""

from __future__ import annotations

from phasewise.fix.patient import Patient, reject, remedy
from phasewise.record.quantity import Quantity, reported
from phasewise.record.remedies import Rejected, Remedy
from phasewise.units import show

NAME = "fast attention kernel"
MATERIAL_SHARE = 0.1
"""Share of prefill's FLOPs below which attention is not worth a change."""


def attention_kernel(patient: Patient) -> Remedy | Rejected:
    """Attention's part of a prefill, as a trace shows it or as TTFT grows with the square, falls to its own floor."""
    step = patient.work
    share = float(step.attention_flops) / float(step.flops)
    if share < MATERIAL_SHARE:
        return reject(
            patient, NAME, f"attention is {show(share, '1', 2)} of prefill's FLOPs at {patient.at:,.0f} tokens"
        )
    taken = _taken(patient)
    if taken is None:
        return reject(
            patient, NAME, "TTFT shows no part that grows with the square of the prompt, so attention is not slow"
        )
    floor = float(step.attention_flops) / patient.roof.compute.value
    low, high = taken.low or 0.0, taken.high or taken.value
    return remedy(
        patient,
        NAME,
        max(0.0, min(taken.value - floor, patient.kernel)),
        low=max(0.0, low - floor),
        high=min(max(0.0, high - floor), patient.kernel),
        why=f"attention is {show(share, '1', 2)} of the FLOPs, and {taken.source} {show(taken.value, 's')} against a "
        f"floor of {show(floor, 's')}",
        verify="switch the attention backend and profile again: the quadratic coefficient of TTFT should fall",
    )


def _taken(patient: Patient) -> Quantity | None:
    """Seconds of the step in attention; None where nothing shows them."""
    if patient.attention_s is not None:
        return reported(patient.attention_s, "s", "its kernels take")
    if patient.fit is None or patient.fit.per_token2.value <= 0:
        return None
    square, quadratic = patient.at * patient.at, patient.fit.per_token2
    return Quantity(
        value=quadratic.value * square,
        low=None if quadratic.low is None else quadratic.low * square,
        high=None if quadratic.high is None else quadratic.high * square,
        unit="s",
        provenance="measured",
        source="the part of TTFT that grows with the square of the prompt takes",
    )
