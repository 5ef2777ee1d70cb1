"""One launch a step instead of hundreds."""

from __future__ import annotations

from phasewise.fix.patient import Patient, reject, remedy
from phasewise.predict.launches import LAUNCH_S, host_s, launches
from phasewise.record.remedies import Rejected, Remedy
from phasewise.units import show

NAME = "CUDA graphs"


def cuda_graphs(patient: Patient) -> Remedy | Rejected:
    """The overhead loses what launching kernel by kernel costs, never more than it is."""
    if patient.machine.kind != "gpu":
        return reject(patient, NAME, f"{patient.machine.name} is no GPU: there is nothing to capture")
    overhead = patient.share("overhead")
    if overhead < 0.1:
        return reject(
            patient, NAME, f"overhead is {show(overhead, '1', 2)} of a step: launches are not what it waits for"
        )
    cost = host_s(patient.model)
    return remedy(
        patient,
        NAME,
        min(cost, patient.overhead),
        low=0.0,
        high=patient.overhead,
        why=f"overhead is {show(overhead, '1', 2)} of a step, and about {launches(patient.model)} launches at "
        f"{show(LAUNCH_S, 's')} are {show(cost, 's')}; nothing is gained where graphs are on already",
        verify="drop --enforce-eager (or turn graphs on) and profile again: the overhead of a step should fall",
    )
