"""Remedies for the phases of a trace: by what its gaps and its kernels show, then the usual ones of each phase."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from phasewise.fix.async_scheduling import async_scheduling
from phasewise.fix.attention_kernel import attention_kernel
from phasewise.fix.bigger_batches import bigger_batches
from phasewise.fix.communication import communication
from phasewise.fix.faster_kernels import faster_kernels
from phasewise.fix.fix import ranked
from phasewise.fix.fp8_kv import fp8_kv
from phasewise.fix.fp8_matmuls import fp8_matmuls
from phasewise.fix.measured_graphs import measured_graphs
from phasewise.fix.patient import Patient, Timed, reject
from phasewise.fix.prefix_caching import prefix_caching
from phasewise.fix.quantised_weights import for_decode, for_prefill
from phasewise.fix.seen import Seen
from phasewise.fix.speculative import speculative
from phasewise.judge.traced import devices, ran
from phasewise.judge.traced_parts import Excess, excesses, in_a_row
from phasewise.model.model import Model
from phasewise.predict.roofline import roofs
from phasewise.predict.traced import count
from phasewise.record.judgement import Bound
from phasewise.record.machine import Machine
from phasewise.record.remedies import Rejected, Remedies, Remedy
from phasewise.record.trace import Traced, TracePhase, TraceVerdict

SEEN: tuple[Callable[[Seen], Remedy | Rejected], ...] = (measured_graphs, async_scheduling, communication)
"""For every phase, by what the trace shows alone."""

Attempt = Callable[[Patient], Remedy | Rejected]

KNOWN: dict[TracePhase, tuple[Attempt, ...]] = {
    "prefill": (prefix_caching, fp8_matmuls, attention_kernel, for_prefill),
    "decode": (for_decode, fp8_kv, bigger_batches, speculative),
}
"""Where the work is known too: less math for prefill, fewer bytes and fewer steps for decode."""

BY_CONTEXT: tuple[Attempt, ...] = (fp8_kv, bigger_batches, speculative)
"""Those whose gain hangs on how much KV cache a step reads."""


def fix_traced(traced: Traced, model: Model | None, machine: Machine | None) -> Remedies:
    """Rank the remedies of each phase of a judged trace; savings are seconds of its steps on one rank of the trace.

    Without model and machine those that the trace alone tells are ranked, and the note says so.
    """
    times = {name: _seconds(traced, name) for name in traced.phases}
    found: list[Remedy | Rejected] = []
    unranked, blind = [], dict[str, list[str]]()
    for name, phase in traced.phases.items():
        verdict = phase.verdict
        if verdict is None or verdict.step is None:
            continue
        if verdict.alarm:
            unranked.append(f"the {name} figures are not to be believed, so nothing is ranked for it")
            continue
        timed = _timed(
            name, verdict, verdict.step.value, times[name], times[name] if traced.recordings else sum(times.values())
        )
        seen = Seen(timed=timed, found=phase, verdict=verdict, on_cpu=traced.on_cpu)
        found += [attempt(seen) for attempt in SEEN]
        if model is None or machine is None or verdict.why_null:
            blind.setdefault(verdict.why_null, []).append(name)
            continue
        patient = _patient(traced, seen, model, machine)
        found.append(faster_kernels(seen, patient, _excesses(seen)))
        found += [_tried(attempt, patient, verdict) for attempt in KNOWN.get(name, ())]
    for why, names in blind.items():
        unranked.append(f"{' and '.join(names)}: only the fixes that gaps and communication show, since {why}")
    if not found and not unranked:
        unranked.append("the trace has no steps, so nothing is ranked")
    return ranked(found, unranked)


def _tried(attempt: Attempt, patient: Patient, verdict: TraceVerdict) -> Remedy | Rejected:
    """What ``attempt`` says; nothing is ranked by a KV cache and an attention that the floor leaves out."""
    found = attempt(patient)
    if verdict.attention_why_null and attempt in BY_CONTEXT:
        return reject(patient, found.name, f"what it would save cannot be said: {verdict.attention_why_null}")
    return found


def _seconds(traced: Traced, name: TracePhase) -> float:
    """Seconds that the steps of a phase take on one rank: those that run side by side are waited for once."""
    verdict = traced.phases[name].verdict
    if verdict is None or verdict.step is None:
        return 0.0
    return verdict.step.value * in_a_row([step for step in traced.steps if ran(step, name)])


def _timed(name: TracePhase, verdict: TraceVerdict, step: float, own: float, total: float) -> Timed:
    """The phase, with the parts of its mean step by what they are bound on."""
    side: Bound = "compute" if verdict.utilisations and verdict.utilisations[0].yardstick == "mfu" else "memory"
    bounds: dict[str, Bound] = {"floor": side, "kernels": "kernel", "communication": "communication"}
    found: dict[Bound, float] = {}
    for part in verdict.parts:
        on = bounds.get(part.name, "overhead")
        found[on] = found.get(on, 0.0) + part.seconds.value
    return Timed(
        phase=name,
        step=step,
        parts=found,
        request_s=own,
        total_s=total,
        source=f"what the trace shows of its {name} steps",
    )


def _patient(traced: Traced, seen: Seen, model: Model, machine: Machine) -> Patient:
    phase, attention = seen.timed.phase, seen.verdict.attention
    counted = count([(step.prefill, step.decode) for step in traced.steps if ran(step, phase)])
    shared = msgspec.structs.replace(machine, devices=devices(traced, machine)[0])
    return Patient(
        **msgspec.structs.asdict(seen.timed),
        model=model,
        roof=roofs(model, shared)[0],
        machine=shared,
        passes=counted.mean,
        at=counted.context if phase == "decode" else counted.tokens,
        bound=seen.verdict.bound,
        attention_s=attention.value * seen.kernels if attention else None,
    )


def _excesses(seen: Seen) -> tuple[Excess, ...]:
    """Of the families of kernels; without attention in a prefill, which has a remedy of its own."""
    floor, share = seen.verdict.floor, seen.verdict.attention_predicted
    assert floor is not None
    attention = share.value * floor.value if share else None
    found = excesses(seen.found, seen.kernels, floor.value, attention)
    return tuple(one for one in found if not (seen.timed.phase == "prefill" and one.name == "attention"))
