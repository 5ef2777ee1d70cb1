"""More requests a step: the weights are read once for all of them."""

from __future__ import annotations

from phasewise.fix.patient import Patient, remedy
from phasewise.predict.roofline import decode_floor
from phasewise.record.remedies import Rejected, Remedy

BATCH = 32
"""Batch that the figures are given for."""


def bigger_batches(patient: Patient) -> Remedy | Rejected:
    """Accelerator time per token at a batch: the floor and the overhead are shared, the kernels' excess may not be."""
    step = float(decode_floor(patient.model, patient.roof, patient.at, float(BATCH)))
    alone = float(decode_floor(patient.model, patient.roof, patient.at))
    floor_each = patient.floor * step / alone / BATCH
    overhead_each = patient.overhead / BATCH
    grows = floor_each + overhead_each + patient.kernel
    shrinks = floor_each + overhead_each + patient.kernel * step / alone / BATCH
    # A memory-bound step shares its excess with its reads; a kernel-bound one works for each request.
    likely = grows if patient.verdict.bound == "kernel" else shrinks
    saved = patient.step - likely
    return remedy(
        patient,
        f"bigger batches ({BATCH})",
        saved,
        low=patient.step - grows,
        high=patient.step - shrinks,
        why=f"one read of the weights serves the whole batch: {patient.step / likely:.3g}× the tokens a second at "
        f"batch {BATCH}; it frees the accelerator and does not shorten one user's wait",
        verify=f"run {BATCH} requests at once: tokens a second should rise as said while TPOT stays near the step time",
        buys="throughput",
    )
