"""Try every remedy on its phase and rank what helps."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from phasewise.fix.attention_kernel import attention_kernel
from phasewise.fix.bigger_batches import bigger_batches
from phasewise.fix.cuda_graphs import cuda_graphs
from phasewise.fix.fp8_kv import fp8_kv
from phasewise.fix.fp8_matmuls import fp8_matmuls
from phasewise.fix.patient import Patient
from phasewise.fix.prefix_caching import prefix_caching
from phasewise.fix.quantised_weights import for_decode, for_prefill
from phasewise.fix.speculative import speculative
from phasewise.judge.case import Case
from phasewise.model.passes import Pass
from phasewise.record.judgement import Judgement, PhaseVerdict
from phasewise.record.machine import Machine
from phasewise.record.observation import Phase
from phasewise.record.remedies import Rejected, Remedies, Remedy

REMEDIES: dict[Phase, tuple[Callable[[Patient], Remedy | Rejected], ...]] = {
    "prefill": (prefix_caching, fp8_matmuls, attention_kernel, for_prefill),
    "decode": (for_decode, fp8_kv, bigger_batches, cuda_graphs, speculative),
}
"""The list: less math for prefill, fewer bytes and fewer steps for decode."""


def fix(case: Case, judgement: Judgement, machine: Machine | None) -> Remedies:
    """Rank the remedies of each phase that was measured and is believed."""
    if case.ground is None or machine is None:
        return _nothing(f"No fix is ranked: {case.why_null}.")
    if judgement.alarms:
        return _nothing("No fix is ranked: a utilisation over 100% means that an input is wrong.")
    found: list[Remedy | Rejected] = []
    unranked = []
    for verdict, phase in ((judgement.prefill, "prefill"), (judgement.decode, "decode")):
        if verdict is None:
            unranked.append(f"{phase} was not measured, so nothing is ranked for it")
        elif not verdict.believed:
            unranked.append(f"the {phase} figures are not to be believed, so nothing is ranked for it")
        else:
            patient = _patient(case, judgement, verdict, machine)
            found += [attempt(patient) for attempt in REMEDIES[verdict.phase]]
    return ranked(found, unranked)


def ranked(found: Sequence[Remedy | Rejected], unranked: Sequence[str]) -> Remedies:
    """What helps by seconds saved, what does not with its reason, and ``unranked`` as the note."""
    fixes = [one for one in found if isinstance(one, Remedy)]
    fixes.sort(key=lambda one: (one.buys != "latency", -one.saves.value))
    rejected = tuple(one for one in found if isinstance(one, Rejected))
    note = "; ".join(unranked)
    return Remedies(fixes=tuple(fixes), rejected=rejected, note=f"{note[:1].upper()}{note[1:]}." if note else "")


def _patient(case: Case, judgement: Judgement, verdict: PhaseVerdict, machine: Machine) -> Patient:
    model, roof = case.ground or (None, None)
    assert model is not None
    assert roof is not None
    ask = case.asks[0]
    if judgement.splits:
        split = judgement.splits[0]
        request = split.ttft.value if verdict.phase == "prefill" else split.decode.value
        total = split.total.value
    else:
        request = verdict.step.value * (1 if verdict.phase == "prefill" else max(1, ask.answer - 1))
        total = request
    seen = case.observation.prefill
    prefill = verdict.phase == "prefill"
    return Patient(
        phase=verdict.phase,
        step=verdict.step.value,
        parts={part.name: part.seconds.value for part in verdict.shares},
        request_s=request,
        total_s=total,
        source=f"{roof.basis} ceilings, applied to the measured {verdict.phase} step",
        model=model,
        roof=roof,
        machine=machine,
        passes=(Pass(verdict.at_tokens) if prefill else Pass(1.0, verdict.at_tokens, decode=True),),
        at=verdict.at_tokens,
        bound=verdict.bound,
        fit=seen.fit if seen and prefill else None,
    )


def _nothing(note: str) -> Remedies:
    return Remedies(fixes=(), rejected=(), note=note)
