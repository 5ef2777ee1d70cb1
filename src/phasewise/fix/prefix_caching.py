"""Skip the prompt tokens that were computed before."""

from __future__ import annotations

from phasewise.fix.patient import Patient, remedy
from phasewise.record.remedies import Rejected, Remedy

HIT = 0.5
"""Assumed part of the prompt that is shared with an earlier one; the interval takes a quarter to three quarters."""


def prefix_caching(patient: Patient) -> Remedy | Rejected:
    """Work and kernel time of the cached tokens go; overhead stays."""
    whole = patient.least()

    def saved(hit: float) -> float:
        cached = tuple(
            one._replace(tokens=(1 - hit) * one.tokens, past=one.past + hit * one.tokens) for one in patient.passes
        )
        left = patient.least(passes=cached) / whole
        return (patient.floor + patient.kernel) * (1 - left)

    return remedy(
        patient,
        "prefix caching",
        saved(HIT),
        low=saved(HIT / 2),
        high=saved(1.5 * HIT),
        why=f"each cached prompt token is a token not computed; figures assume that {HIT:.0%} of the prompt is shared",
        verify="send one prompt twice: TTFT falls and usage counts cached_tokens; then profile with your own prompts",
    )
