"""The verdict on each phase of a trace: the work of its steps against the time that they took.

MFU and MBU are taken over the time in which the device was busy (the union of its kernels, copies and replays). That is
the part of a step that a profiler leaves as it was: recording slows down the host, so that gaps in a trace are longer
than without it, while kernels are not. The sum of kernel times would count twice what runs side by side, and a step's
span counts gaps that a part of the verdict shows apart. The same figures over the whole step, gaps included, follow.
"""

from __future__ import annotations

import re
from collections import Counter

import msgspec

from phasewise.judge import alarm, traced_parts, traced_words
from phasewise.judge.shares import side
from phasewise.judge.traced_parts import MeanTime
from phasewise.judge.utilisation import whole
from phasewise.model.model import Model
from phasewise.model.work import Work
from phasewise.predict.roofline import Roof, roofs
from phasewise.predict.traced import Counted, count, inexact, mean_step
from phasewise.record.judgement import Utilisation
from phasewise.record.machine import Machine
from phasewise.record.quantity import Quantity, predicted, reported
from phasewise.record.trace import Traced, TracedPhase, TracePhase, TraceStep, TraceVerdict

NO_MODEL = "the model is not known: name it with --model"
NO_MACHINE = "the accelerator is not known: name it with --on"
NO_COUNTS = "no step of the phase says how many tokens it handled"
NOT_SAID = f"{NO_COUNTS} (those in its evidence are read from the shapes of operators, not said by the engine)"
NO_DEVICE = "device activity"
"""The health check that fails where a trace has no kernels for the steps that it marks."""

_TOKENS = re.compile(r"\btokens?\b")

_CLIPPED = "The floor is longer than the kernels took: as a part of the step it is as long as they were."


class Ground(msgspec.Struct, frozen=True, kw_only=True):
    """What the phases are judged on.

    Attributes:
        model: None when unknown.
        roofs: of all devices together, the most trusted first; empty when unknown.
        why_null: what is missing, "" when nothing is.
        notes: what was assumed of devices and model.
    """

    model: Model | None
    roofs: tuple[Roof, ...]
    why_null: str
    notes: tuple[str, ...]


def judge(traced: Traced, model: Model | None, machine: Machine | None) -> Traced:
    """``traced`` with a verdict on each phase that did something, and the answer in one sentence.

    Where the device was not recorded nothing is judged, and the answer says why.

    Several devices are taken to do an even part of each step (see ``devices``).
    """
    blind = next((one.detail for one in traced.health if (one.check, one.status) == (NO_DEVICE, "failed")), "")
    if blind:
        unjudged = {name: _blind(phase, blind) for name, phase in traced.phases.items()}
        judged = msgspec.structs.replace(traced, phases=unjudged)
        return msgspec.structs.replace(judged, text=traced_words.no_verdict(judged, blind))
    ground = _ground(traced, model, machine)
    seconds = traced_parts.lengths(traced.steps)
    phases: dict[TracePhase, TracedPhase] = {}
    for name, phase in traced.phases.items():
        own = [i for i, step in enumerate(traced.steps) if ran(step, name)]
        found = _verdict(name, phase, [traced.steps[i] for i in own], [seconds[i] for i in own], ground)
        phases[name] = msgspec.structs.replace(phase, verdict=found)
    judged = msgspec.structs.replace(traced, phases=phases)
    return msgspec.structs.replace(judged, text=traced_words.answer(judged))


def ran(step: TraceStep, phase: TracePhase) -> bool:
    """Whether ``step`` is one of ``phase`` in which anything ran."""
    return step.phase == phase and step.union_s > 0


def devices(traced: Traced, machine: Machine | None) -> tuple[int, str]:
    """How many devices share a step, and on what word: the flag's, the files', else as many as ran kernels."""
    if machine and machine.devices > 1:
        return machine.devices, "--devices"
    worlds = [file.world for file in traced.files if file.world]
    if worlds:
        return max(worlds), "the ranks that the files say"
    first = traced.recordings[0] if traced.recordings else 0
    sides = Counter(device.rank < first for device in traced.devices)
    return max(1, *sides.values()), "as many as ran kernels; --devices says otherwise"


def _ground(traced: Traced, model: Model | None, machine: Machine | None) -> Ground:
    missing = [why for known, why in ((model, NO_MODEL), (machine, NO_MACHINE)) if known is None]
    if model is None or machine is None:
        return Ground(model=model, roofs=(), why_null="; ".join(missing), notes=())
    many, said_by = devices(traced, machine)
    found = roofs(model, msgspec.structs.replace(machine, devices=many))
    notes = []
    if many > 1:
        notes.append(f"The work of a step is divided evenly over {many} devices ({said_by}).")
    if model.architecture.not_modelled:
        notes.append(f"Not counted in the work: {', '.join(model.architecture.not_modelled)}.")
    why = "" if found else f"{machine.name} has no known rate for {model.compute[0]}: give --peak and --bandwidth"
    return Ground(model=model, roofs=found, why_null=why, notes=tuple(notes))


def _verdict(
    name: TracePhase, phase: TracedPhase, steps: list[TraceStep], seconds: list[float], ground: Ground
) -> TraceVerdict | None:
    """The verdict on one phase, of which ``steps`` ran kernels and took ``seconds``; None when it did nothing."""
    if not (steps or phase.gpu_time_s > 0 or phase.speed_of_light):
        return None
    counted = count([(step.prefill, step.decode) for step in steps])
    if ground.model and ground.roofs and counted.which:
        time = traced_parts.mean_time(phase, [steps[i] for i in counted.which], [seconds[i] for i in counted.which])
        return _with_floor(name, phase, time, counted, ground.model, ground)
    if counted.which:
        why_null = ground.why_null
    else:
        no_counts = _no_counts(counted, steps)
        why_null = "; ".join(filter(None, (ground.why_null, no_counts)))
    return _without_floor(phase, traced_parts.mean_time(phase, steps, seconds), why_null)


def _no_counts(counted: Counted, steps: list[TraceStep]) -> str:
    if counted.contradictory:
        return "the token counts of its steps contradict each other"
    hints = any(_TOKENS.search(phrase) for step in steps for phrase in step.evidence)
    return NOT_SAID if hints else NO_COUNTS


def _blind(phase: TracedPhase, why: str) -> TracedPhase:
    """``phase`` without a bound, MFU, MBU or floor: what the device did is not in the trace."""
    if not (phase.steps or phase.gpu_time_s or phase.kernels):
        return phase
    return msgspec.structs.replace(
        phase, verdict=TraceVerdict(bound="unknown", why=f"No verdict: {why}.", why_null=why)
    )


def _without_floor(phase: TracedPhase, time: MeanTime, why_null: str) -> TraceVerdict:
    """What the gaps, the communication and the counters tell alone."""
    found = traced_parts.bound(time, None, "memory") if time.step > 0 else "unknown"
    counters = phase.speed_of_light
    if found == "unknown" and counters and counters.rule != "not measured":
        found = "kernel" if counters.rule == "latency" else counters.rule
    made = traced_parts.parts(time, None) if time.step > 0 else ()
    return TraceVerdict(
        bound=found,
        called=traced_words.called(found, made, counters),
        why=traced_words.why(found, phase, time, None, why_null),
        why_null=why_null,
        steps=time.steps,
        step=_step(time),
        parts=made,
        attention=_attention(phase),
    )


def _with_floor(
    name: TracePhase, phase: TracedPhase, time: MeanTime, counted: Counted, model: Model, ground: Ground
) -> TraceVerdict:
    mean = mean_step(model, ground.roofs[0], counted)
    meets = side(mean.work, ground.roofs[0])
    at = counted.context if name == "decode" else counted.tokens
    lacking = counted.without_context
    figures = _utilisations(ground.roofs, mean.work, time, at, first="mfu" if meets == "compute" else "mbu")
    if lacking:
        figures = tuple(msgspec.structs.replace(one, value=traced_parts.at_least(one.value)) for one in figures)
    clipped = mean.floor_s > time.kernels
    rung = alarm.of_phase(name, figures)
    found = "unknown" if rung else traced_parts.bound(time, mean.floor_s, meets, open_ended=lacking)
    why = f"No verdict: {rung[0].text}" if rung else traced_words.why(found, phase, time, mean, "", lacking)
    made = () if rung else traced_parts.parts(time, mean.floor_s, open_ended=lacking)
    floor = predicted(mean.floor_s, "s", f"{meets} floor, {ground.roofs[0].basis} ceilings")
    share = predicted(mean.attention_s / mean.floor_s, "1", "attention's share of the floor")
    return TraceVerdict(
        bound=found,
        called=traced_words.called(found, made, None),
        why=why,
        why_null="",
        steps=time.steps,
        step=_step(time),
        floor=traced_parts.at_least(floor) if lacking else floor,
        utilisations=figures,
        parts=made,
        attention=_attention(phase),
        attention_predicted=None if lacking else share,
        attention_why_null=traced_words.NO_ATTENTION if lacking else "",
        alarm=rung[0] if rung else None,
        notes=(*ground.notes, *_doubts(counted, model, phase.steps), *([_CLIPPED] if clipped and not rung else [])),
    )


def _utilisations(
    under: tuple[Roof, ...], done: Work, time: MeanTime, at: float, first: str
) -> tuple[Utilisation, ...]:
    spent = [reported(time.busy, "s", "the time in which the device was busy")]
    if time.step > time.busy:
        spent.append(reported(time.step, "s", "the whole step, gaps included"))
    found = []
    for seconds in spent:
        for roof in under:
            both = whole(roof, at, float(done.flops), float(done.bytes), seconds)
            found += sorted(both, key=lambda one: one.yardstick != first)
    return tuple(found)


def _doubts(counted: Counted, model: Model, steps: int) -> list[str]:
    notes = [f"{text[:1].upper()}{text[1:]}." for text in counted.assumed]
    if inexact(model, counted):
        notes.append("Requests of one step are counted as equally long where attention is windowed or sparse.")
    if len(counted.which) < steps:
        notes.append(
            f"{len(counted.which)} of {steps} steps say their tokens and ran kernels: the figures are of those."
        )
    return notes


def _step(time: MeanTime) -> Quantity | None:
    return reported(time.step, "s", f"mean of {time.steps} steps") if time.steps else None


def _attention(phase: TracedPhase) -> Quantity | None:
    share = traced_parts.family_share(phase, "attention")
    return reported(share, "1", "attention's share of kernel time") if phase.families else None
