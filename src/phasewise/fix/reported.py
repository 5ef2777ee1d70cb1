"""Remedies for what another tool or a person measured: those of each phase, applied to the row that speaks for it."""

from __future__ import annotations

from phasewise.fix.fix import REMEDIES, ranked
from phasewise.fix.patient import Patient
from phasewise.judge.reported import Ground
from phasewise.model.passes import Pass
from phasewise.record.judgement import Bound, PhaseVerdict
from phasewise.record.observation import Phase
from phasewise.record.remedies import Rejected, Remedies, Remedy
from phasewise.record.results import Results, Step


def fix_reported(found: Results, on: Ground) -> Remedies:
    """Rank the remedies of each phase that was judged and is believed; savings are of the row's request."""
    if on.known is None:
        return Remedies(fixes=(), rejected=(), note=f"No fix is ranked: {on.why_null}.")
    if found.alarms:
        return Remedies(
            fixes=(), rejected=(), note="No fix is ranked: a utilisation over 100% means that an input is wrong."
        )
    tried: list[Remedy | Rejected] = []
    unranked = []
    for phase, verdict, row in (
        ("prefill", found.prefill, found.prefill_row),
        ("decode", found.decode, found.decode_row),
    ):
        if verdict is None or row is None:
            unranked.append(f"{phase} is not told by these figures, so nothing is ranked for it")
            continue
        step = found.reported.rows[row].prefill if phase == "prefill" else found.reported.rows[row].decode
        assert step is not None
        if not verdict.believed:
            unranked.append(f"the {phase} figures are not to be believed, so nothing is ranked for it")
        elif step.least:
            unranked.append(f"the time of {phase} holds more than its step, so nothing is ranked for it")
        else:
            patient = _patient(found, verdict, step, on)
            tried += [attempt(patient) for attempt in REMEDIES[verdict.phase]]
    return ranked(tried, unranked)


def _patient(found: Results, verdict: PhaseVerdict, step: Step, on: Ground) -> Patient:
    known = on.for_step(step).known
    assert known is not None
    model, machine, roof = known
    prefill = verdict.phase == "prefill"
    split = found.split
    own = split.ttft.value if split and prefill else split.decode.value if split else verdict.step.value
    batch = step.batch.value
    one = Pass(step.tokens.value, step.cached, batch) if prefill else Pass(1.0, step.tokens.value, batch, decode=True)
    return Patient(
        phase=verdict.phase,
        step=verdict.step.value,
        parts=_parts(verdict),
        request_s=own,
        total_s=split.total.value if split else own,
        source=f"{roof.basis} ceilings, applied to the reported {verdict.phase} step",
        model=model,
        roof=roof,
        machine=machine,
        passes=(one,),
        at=step.tokens.value,
        bound=verdict.bound,
    )


def _parts(verdict: PhaseVerdict) -> dict[Bound, float]:
    """Seconds by part; what is beyond the floor and not told apart is taken as what is likeliest there."""
    likely: dict[Phase, Bound] = {"prefill": "kernel", "decode": "overhead"}
    named = {name for name in (verdict.bound, verdict.rival) if name in ("overhead", "kernel", "communication")}
    other: Bound = verdict.bound if verdict.bound in named else verdict.rival or likely[verdict.phase]
    return {other if part.name == "unknown" else part.name: part.seconds.value for part in verdict.shares}
