"""Run prefill's matrix multiplies on the FP8 units."""

from __future__ import annotations

from phasewise.fix.patient import Patient, floor_change, reject
from phasewise.record.remedies import Rejected, Remedy

NAME = "FP8 matmuls"


def fp8_matmuls(patient: Patient) -> Remedy | Rejected:
    """The matmuls' compute floor shrinks by the ratio of the peaks; attention keeps its own."""
    if patient.roof.dtype in ("fp8", "fp4", "int8"):
        return reject(patient, NAME, f"the matmuls are already held against the {patient.roof.dtype} peak")
    ceilings = next((c for c in patient.machine.ceilings if c.basis == patient.roof.basis), None)
    peak = ceilings.compute.get("fp8") if ceilings else None
    if peak is None:
        return reject(
            patient, NAME, f"no FP8 rate is known for {patient.machine.name}: it has no such units, or --on is missing"
        )
    compute, bandwidth = patient.roof.compute.value, patient.roof.bandwidth.value
    faster = peak.value * patient.machine.devices
    before = after = 0.0
    for op in patient.work.operations:
        memory = float(op.weight_bytes + op.kv_bytes) / bandwidth
        before += max(float(op.flops) / compute, memory)
        after += max(float(op.flops) / (compute if op.name == "attention" else faster), memory)
    return floor_change(
        patient,
        NAME,
        before,
        after,
        why=f"prefill pays for math, and FP8 does {faster / compute:.3g}× as much of it a second",
        verify="serve FP8 weights with FP8 activations and profile with --weights fp8: TTFT per token should fall",
    )
