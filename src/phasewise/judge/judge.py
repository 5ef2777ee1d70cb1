"""Prediction and observation to a judgement."""

from __future__ import annotations

import msgspec

from phasewise.judge import owner, phases
from phasewise.judge.alarm import alarms
from phasewise.judge.case import Case
from phasewise.judge.sentence import verdict
from phasewise.record.judgement import Alarm, Judgement, PhaseVerdict


def judge(case: Case) -> Judgement:
    """Judge each phase alone, then who owns the time, then say it in a sentence."""
    prefill, decode = phases.prefill(case), phases.decode(case)
    rung = alarms((prefill, decode))
    prefill, decode = _doubted(prefill, rung), _doubted(decode, rung)
    found = owner.splits(case)
    mix = owner.mixed(found)
    return Judgement(
        prefill=prefill,
        decode=decode,
        splits=found,
        prefill_share=mix[0] if mix else None,
        decode_share=mix[1] if mix else None,
        verdict=verdict(prefill, decode, found, mix, rung, case.observation.checks),
        alarms=rung,
    )


def _doubted(phase: PhaseVerdict | None, rung: tuple[Alarm, ...]) -> PhaseVerdict | None:
    if phase is None or not any(alarm.text.startswith(phase.phase) for alarm in rung):
        return phase
    return msgspec.structs.replace(phase, believed=False)
