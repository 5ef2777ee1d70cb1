"""One launch a step instead of hundreds."""

from __future__ import annotations

from phasewise.fix.patient import Patient, reject, remedy
from phasewise.record.remedies import Rejected, Remedy
from phasewise.units import show

NAME = "CUDA graphs"
KERNELS_PER_LAYER = 10
"""Norm, QKV, RoPE, KV write, attention, output, norm, gate and up, activation, down (the seed, §4)."""
LAUNCH_S = 5e-6
"""Seconds of host time a launch: the low end of 5 to 20 µs in public reports (paiml/realizar#36, trueno#238)."""


def cuda_graphs(patient: Patient) -> Remedy | Rejected:
    """The overhead loses what launching kernel by kernel costs, never more than it is."""
    if patient.machine.kind != "gpu":
        return reject(patient, NAME, f"{patient.machine.name} is no GPU: there is nothing to capture")
    overhead = patient.share("overhead")
    if overhead < 0.1:
        return reject(
            patient, NAME, f"overhead is {show(overhead, '1', 2)} of a step: launches are not what it waits for"
        )
    launches = KERNELS_PER_LAYER * patient.model.architecture.layers
    cost = launches * LAUNCH_S
    return remedy(
        patient,
        NAME,
        min(cost, patient.overhead),
        low=0.0,
        high=patient.overhead,
        why=f"overhead is {show(overhead, '1', 2)} of a step, and about {launches} launches at 5 µs are "
        f"{show(cost, 's')}; nothing is gained where graphs are on already",
        verify="drop --enforce-eager (or turn graphs on) and profile again: the overhead of a step should fall",
    )
