"""Several tokens a weight read: a draft proposes, one step verifies."""

from __future__ import annotations

from phasewise.fix.patient import Patient, reject, remedy
from phasewise.predict.speculation import DRAFT_COST, tokens_per_step
from phasewise.record.remedies import Rejected, Remedy

NAME = "speculative decoding"
DRAFT = 4
"""Tokens proposed a step."""
ACCEPTANCE = 0.7
"""Assumed chance that a proposed token is accepted; the interval takes 0.5 to 0.85."""


def speculative(patient: Patient) -> Remedy | Rejected:
    """A verify step reads the weights once for all proposed tokens; the kernels' excess grows with them if it binds."""
    if any(one.tokens > 1.01 for one in patient.passes):
        return reject(patient, NAME, "its steps give a request more than one token already")
    alone = patient.least()
    verify_floor = patient.least(passes=tuple(one._replace(tokens=(DRAFT + 1) * one.tokens) for one in patient.passes))
    kernel = patient.kernel * (DRAFT + 1 if patient.bound == "kernel" else 1)
    step = (
        patient.floor * verify_floor / alone
        + patient.overhead
        + kernel
        + patient.communication
        + DRAFT * DRAFT_COST * patient.step
    )

    def saved(acceptance: float) -> float:
        return patient.step - step / tokens_per_step(DRAFT, acceptance)

    if saved(ACCEPTANCE) <= 0:
        return reject(
            patient,
            NAME,
            "the kernels' own time grows with every token verified, which costs more than accepted tokens save",
        )
    return remedy(
        patient,
        NAME,
        saved(ACCEPTANCE),
        low=saved(0.5),
        high=saved(0.85),
        why=f"one weight read yields {tokens_per_step(DRAFT, ACCEPTANCE):.2g} tokens with {DRAFT} proposed and "
        f"{ACCEPTANCE:.0%} accepted (assumed, as is a draft at {DRAFT_COST:.0%} of a step a token); the gain shrinks "
        "as batches grow",
        verify="turn it on and profile again: TPOT by usage falls, and tokens per chunk show how many were accepted",
    )
