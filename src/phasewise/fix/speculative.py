"""Several tokens a weight read: a draft proposes, one step verifies."""

from __future__ import annotations

from phasewise.fix.patient import Patient, reject, remedy
from phasewise.predict.roofline import decode_floor
from phasewise.record.remedies import Rejected, Remedy

NAME = "speculative decoding"
DRAFT = 4
"""Tokens proposed a step."""
ACCEPTANCE = 0.7
"""Assumed chance that a proposed token is accepted; the interval takes 0.5 to 0.85."""
DRAFT_COST = 0.05
"""Assumed cost of one proposed token, in steps."""


def speculative(patient: Patient) -> Remedy | Rejected:
    """A verify step reads the weights once for all proposed tokens; the kernels' excess grows with them if it binds."""
    weights = float(decode_floor(patient.model, patient.roof, 0.0))
    alone = float(decode_floor(patient.model, patient.roof, patient.at))
    verify_floor = float(decode_floor(patient.model, patient.roof, 0.0, float(DRAFT + 1))) + alone - weights
    kernel = patient.kernel * (DRAFT + 1 if patient.verdict.bound == "kernel" else 1)
    step = patient.floor * verify_floor / alone + patient.overhead + kernel + DRAFT * DRAFT_COST * patient.step

    def saved(acceptance: float) -> float:
        return patient.step - step / tokens_per_step(acceptance)

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
        why=f"one weight read yields {tokens_per_step(ACCEPTANCE):.2g} tokens with {DRAFT} proposed and "
        f"{ACCEPTANCE:.0%} accepted (assumed, as is a draft at {DRAFT_COST:.0%} of a step a token); the gain shrinks "
        "as batches grow",
        verify="turn it on and profile again: TPOT by usage falls, and tokens per chunk show how many were accepted",
    )


def tokens_per_step(acceptance: float) -> float:
    """Expected tokens a verify step yields: (1 - α^(γ+1)) / (1 - α) (Leviathan et al., arXiv 2211.17192, eq. 1)."""
    return (1 - acceptance ** (DRAFT + 1)) / (1 - acceptance)
