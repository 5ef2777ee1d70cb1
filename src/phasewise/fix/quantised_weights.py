"""Fewer bytes a weight: what it buys decode, and what it does not buy prefill."""

from __future__ import annotations

import msgspec

from phasewise.fix.patient import Patient, floor_change, reject
from phasewise.model.formats import WEIGHTS
from phasewise.model.model import Model, bytes_in
from phasewise.record.remedies import Rejected, Remedy
from phasewise.units import show

NAME = "4-bit weights"


def for_decode(patient: Patient) -> Remedy | Rejected:
    """Decode reads every weight at each step, so its floor shrinks with their bytes."""
    if _already(patient.model):
        return reject(patient, NAME, _already(patient.model))
    before, after = patient.least(), patient.least(_in_4_bit(patient.model))
    return floor_change(
        patient,
        NAME,
        before,
        after,
        why=f"a decode step reads {show(float(patient.work.weight_bytes), 'B')} of weights; in 4 bit its floor falls "
        f"{before / after:.2g}×, if the kernel unpacks them fast enough",
        verify="serve the 4-bit weights and profile again with --weights int4: TPOT and, as much, MBU tell",
    )


def for_prefill(patient: Patient) -> Remedy | Rejected:
    """Prefill waits for math, not for bytes: its floor hardly moves, and unpacking adds to it."""
    if _already(patient.model):
        return reject(patient, NAME, _already(patient.model))
    before, after = patient.least(), patient.least(_in_4_bit(patient.model))
    return floor_change(
        patient,
        NAME,
        before,
        after,
        why=f"a prefill of {patient.at:,.0f} tokens waits for math, not for weight bytes, and 4-bit weights still "
        "compute in 16 bit",
        verify="profile again with --weights int4: TTFT should hardly move",
    )


def _already(model: Model) -> str:
    """Why 4-bit weights with a 16-bit head would hardly be smaller; empty when they would."""
    if _in_4_bit(model).resident_bytes < 0.9 * model.resident_bytes:
        return ""
    return f"the weights already take {8 * model.resident_bytes / model.parameters:.1f} bits each, scales included"


def _in_4_bit(model: Model) -> Model:
    return msgspec.structs.replace(model, weight_bytes=bytes_in(model.architecture, WEIGHTS["int4"]))
