"""Kernels that take longer than their work needs, by the family that owns the excess."""

from __future__ import annotations

import numpy as np

from phasewise.fix.patient import Patient, reject, remedy
from phasewise.fix.seen import Seen
from phasewise.judge.traced_parts import Excess
from phasewise.model.work import ATTENTION
from phasewise.predict.efficiency import of_operations
from phasewise.predict.priors import class_of, prior
from phasewise.record.remedies import Rejected, Remedy
from phasewise.units import show

NAME = "faster kernels"


def faster_kernels(seen: Seen, patient: Patient, excesses: tuple[Excess, ...]) -> Remedy | Rejected:
    """The family with the largest excess falls to what such kernels usually take, at best to its floor.

    What is usual is assumed of the machine's class (see ``predict.priors``). Kernels that read no weights and no cache
    are fused away at best.
    """
    worst = excesses[0]
    if worst.seconds <= 0:
        return reject(seen.timed, NAME, "no family of kernels takes longer than its work needs")
    usual = _usual(patient, worst)
    if worst.took <= usual:
        return reject(
            seen.timed,
            NAME,
            f"{worst.name} owns the excess and takes {show(worst.took, 's')} a step, which is no more than usual on "
            f"such machines ({show(usual, 's')}, assumed)",
        )
    ours = f"usually take {show(usual, 's')} on such machines (assumed)" if usual else "can be fused into others"
    largest = max(
        (row for row in seen.found.top if row.family in worst.families), key=lambda row: row.gpu_time_s, default=None
    )
    named = f" ({largest.name[:80]} above all)" if largest else ""
    return remedy(
        seen.timed,
        f"{NAME}: {worst.name}",
        worst.took - usual,
        low=0.0,
        high=worst.seconds,
        why=f"{worst.name}{named} took {show(worst.took, 's')} of a step where {show(worst.least, 's')} is the floor; "
        f"they {ours}",
        verify="try another backend, tuned or fused kernels and record again: the family's time should fall",
    )


def _usual(patient: Patient, worst: Excess) -> float:
    """Seconds that kernels of the class of the machine take for the operations of ``worst``; 0 for those with none."""
    if not worst.least:
        return 0.0
    own = [op for op in patient.work.operations if (op.name in ATTENTION) == (worst.name == "attention")]
    load = of_operations(own, patient.roof, layers=float(patient.model.architecture.layers))
    alone = load._replace(layers=np.zeros(1), passes=np.zeros(1))
    return float(prior(class_of(patient.machine)).efficiency.seconds(alone)[0])
