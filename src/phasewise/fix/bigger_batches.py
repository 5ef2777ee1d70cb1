"""More requests a step: the weights are read once for all of them."""

from __future__ import annotations

from phasewise.fix.patient import Patient, remedy
from phasewise.record.remedies import Rejected, Remedy

BATCH = 32
"""Batch that the figures are given for; twice its own for a step that has more than half of it."""


def bigger_batches(patient: Patient) -> Remedy | Rejected:
    """Accelerator time of as many tokens as the step makes, in a larger batch.

    The floor and the overhead are shared, the kernels' excess may not be; what devices say grows with the batch.
    """
    batch = max(BATCH, round(2 * patient.batch))
    times = batch / patient.batch
    step = patient.least(passes=tuple(one._replace(batch=one.batch * times) for one in patient.passes))
    alone = patient.least()
    floor_each = patient.floor * step / alone / times
    shared = floor_each + patient.overhead / times + patient.communication
    grows = shared + patient.kernel
    shrinks = shared + patient.kernel * step / alone / times
    # A memory-bound step shares its excess with its reads; a kernel-bound one works for each request.
    likely = grows if patient.bound == "kernel" else shrinks
    saved = patient.step - likely
    return remedy(
        patient,
        f"bigger batches ({batch})",
        saved,
        low=patient.step - grows,
        high=patient.step - shrinks,
        why=f"one read of the weights serves the whole batch: {patient.step / likely:.3g}× the tokens a second at "
        f"batch {batch}; it frees the accelerator and does not shorten one user's wait",
        verify=f"run {batch} requests at once: tokens a second should rise as said while TPOT stays near the step time",
        buys="throughput",
    )
