"""Half the bytes of the KV cache."""

from __future__ import annotations

import msgspec

from phasewise.fix.patient import Patient, floor_change, reject
from phasewise.record.remedies import Rejected, Remedy
from phasewise.units import show

NAME = "FP8 KV cache"
MATERIAL_SHARE = 0.1
"""Share of a step's bytes below which the KV cache is not worth a change: unfused quantise kernels eat the gain."""


def fp8_kv(patient: Patient) -> Remedy | Rejected:
    """The step reads the KV cache at one byte an element."""
    if patient.model.kv_element_bytes <= 1.1:
        return reject(patient, NAME, f"the KV cache is already in {patient.model.kv_format}")
    step = patient.work
    share = float(step.kv_bytes) / float(step.bytes)
    if share < MATERIAL_SHARE:
        return reject(
            patient,
            NAME,
            f"the KV cache is {show(share, '1', 2)} of a step's bytes at {patient.at:,.0f} tokens of context",
        )
    halved = msgspec.structs.replace(patient.model, kv_element_bytes=1.0)
    return floor_change(
        patient,
        NAME,
        patient.least(),
        patient.least(halved),
        why=f"the KV cache is {show(share, '1', 2)} of the bytes that a step reads",
        verify="serve with an FP8 KV cache and profile again with --kv fp8: TPOT after long prompts should fall",
    )
