"""The verdict on a trace in sentences."""

from __future__ import annotations

from collections.abc import Sequence

from phasewise.judge import traced_parts
from phasewise.judge.traced_parts import MeanTime
from phasewise.predict.traced import MeanStep
from phasewise.record.judgement import Bound
from phasewise.record.trace import (
    PartName,
    SpeedOfLight,
    Traced,
    TracedPhase,
    TracePart,
    TracePhase,
    TraceVerdict,
)
from phasewise.units import show

_LATE_S = 50e-6
"""A kernel that starts sooner than this after its launch found an idle device: it waited for the host."""

_IDLE = 0.5
"""A device that is busy for less of the time than this is said to be idle in the answer."""

_MATERIAL = 0.005
"""Kernels outside of all steps are said beside the owner from this share of the GPU time on."""

NO_ATTENTION = "the context of its generations is not said, so the floor leaves out their KV cache and attention"

_OVERHEAD: dict[PartName, str] = {"launches": "launch-bound", "host": "host-bound", "copies": "copy-bound"}
"""A bound of ``overhead`` by the largest part of it."""

_MEANS = {
    "launch-bound": " (the device waits for kernels that are launched one by one)",
    "host-bound": " (the device waits for the host)",
    "copy-bound": " (the device copies and no kernel runs)",
    "kernel-bound": " (its kernels take longer than the work needs)",
}
"""What a bound means, where its name does not say it."""

_OWNERS: dict[TracePhase, str] = {
    "prefill": "Prefill owns",
    "decode": "Decode owns",
    "mixed": "Mixed steps, which hold both phases, own",
    "unknown": "Steps whose phase could not be told own",
}


_STEPS: dict[TracePhase, str] = {
    "prefill": "A prefill step takes",
    "decode": "A decode step takes",
    "mixed": "Mixed steps take",
    "unknown": "Steps whose phase could not be told take",
}


def called(bound: Bound, parts: Sequence[TracePart], counters: SpeedOfLight | None) -> str:
    """``bound`` in one word: overhead by its largest part, a bound that ``counters`` tell by NVIDIA's rule."""
    if bound == "unknown":
        return ""
    if bound == "overhead":
        return next(_OVERHEAD[part.name] for part in parts if part.name in _OVERHEAD)
    if bound == "kernel" and counters:
        return "latency-bound"
    return f"{bound}-bound"


def why(
    bound: Bound, phase: TracedPhase, time: MeanTime, mean: MeanStep | None, why_null: str, open_ended: bool = False
) -> str:
    """One sentence on ``bound``, with its numbers; with ``open_ended`` the floor is only a lower bound."""
    what = f"a step of {show(time.step, 's')}" if time.steps else f"the {show(time.step, 's')} of the phase"

    def part(seconds: float) -> str:
        return f"{show(seconds / time.step, '1', 2)} of {what}"

    if bound == "overhead":
        named = {"launches": time.launches, "other waits for the host": time.host, "copies": time.copies}
        each = ", ".join(f"{name} {show(seconds, 's')}" for name, seconds in named.items() if seconds > 0)
        return f"No kernel runs in {part(time.overhead)} ({each}){_late(phase)}."
    if bound == "communication":
        return f"Kernels of communication take {part(time.communication)}."
    if bound == "kernel" and mean:
        worst = traced_parts.excesses(phase, time.busy - time.copies, mean.floor_s, mean.attention_s)[0]
        return (
            f"Kernels take {show(time.kernels - mean.floor_s, 's')} beyond the floor of {show(mean.floor_s, 's')}, "
            f"{part(time.kernels - mean.floor_s)}; most of it is {worst.name} ({show(worst.took, 's')} where "
            f"{show(worst.least, 's')} would do)."
        )
    least = "at least " if open_ended else ""
    if mean and bound == "unknown":
        return (
            f"The floor is at least {show(mean.floor_s, 's')}, so that kernels take at most "
            f"{show(time.kernels - mean.floor_s, 's')} beyond it, {part(time.kernels - mean.floor_s)}; which of "
            f"the two is more stays open: {NO_ATTENTION}."
        )
    if mean:
        return f"The least time that its work allows is {least}{show(mean.floor_s, 's')}, {least}{part(mean.floor_s)}."
    if bound == "unknown":
        filled = f"Kernels fill {part(time.kernels)}, and what they should take is open" if time.step > 0 else "Open"
        return f"{filled}: {why_null}."
    return _counters(phase)


def _late(phase: TracedPhase) -> str:
    delay = phase.launches.delay_s if phase.launches else None
    if delay is None or delay >= _LATE_S:
        return ""
    return f"; kernels start {show(delay, 's')} after their launch, so the device waits for the host"


def _counters(phase: TracedPhase) -> str:
    seen = phase.speed_of_light
    assert seen is not None
    sides = f"compute {_percent(seen.compute)}, memory {_percent(seen.memory)} of the sustained peak"
    many = "1 kernel" if seen.kernels == 1 else f"{seen.kernels:,} kernels"
    rule = "latency-bound, since both are under 60%" if seen.rule == "latency" else f"{seen.rule}-bound"
    return f"Counters of {many} say {sides}: by NVIDIA's rule {rule}."


def _percent(value: float | None) -> str:
    return "not measured" if value is None else show(value / 100, "1", 2)


def answer(traced: Traced) -> str:
    """Which phase owns the GPU time and what it is bound on."""
    times = {name: phase.gpu_time_s for name, phase in traced.phases.items()}
    alone = [name for name, phase in traced.phases.items() if _only_counters(phase)]
    if alone and all(name in alone for name, seconds in times.items() if seconds > 0):
        return f"{_upper('; '.join(_by_counters(traced.phases[name], name) for name in alone))}."
    if sum(times.values()) <= 0:
        return f"No kernel of the trace belongs to a step, so no phase owns its time.{_marked(traced)}"
    if traced.recordings:
        return _apart(traced)
    present = [name for name, seconds in times.items() if seconds > 0]
    total = sum(times.values()) + traced.outside_s
    owner = max(times, key=lambda name: times[name])
    owns = _OWNERS[owner] if traced.phases[owner].steps else _OWNERS[owner].replace("Steps", "Kernels")
    where = "the operators' time" if traced.on_cpu else "the GPU time"
    text = f"{owns} {show(times[owner] / total, '1', 2)} of {where}{_bound(traced.phases[owner], owner)}."
    if traced.outside_s >= _MATERIAL * total:
        text += f" {show(traced.outside_s / total, '1', 2)} of it belongs to no step."
    if len(present) == 1 and owner in ("prefill", "decode"):
        other = "decode" if owner == "prefill" else "prefill"
        cut = any(one.check == "truncated" and one.status == "failed" for one in traced.health)
        held = "What could be read of the trace" if cut else "The trace"
        text += f" {held} holds no {other}, so nothing is said of it."
    if traced.busy_fraction is not None and traced.busy_fraction < _IDLE:
        text += f" Over the whole trace the device was busy {show(traced.busy_fraction, '1', 2)} of the time."
    return text


def _apart(traced: Traced) -> str:
    """Each phase of two recordings by itself: how long each was recorded says nothing of who owns a request."""
    told = []
    for name, phase in traced.phases.items():
        if phase.gpu_time_s > 0:
            step = phase.verdict.step.value if phase.verdict and phase.verdict.step else phase.gpu_time_s
            told.append(f"{_STEPS[name]} {show(step, 's')}{_bound(phase, name)}.")
    return " ".join([*told, "Which phase owns a request is not for two recordings to say: phasewise profile does."])


def no_verdict(traced: Traced, why: str) -> str:
    """The answer where the device was not recorded."""
    return f"No verdict: {why.rstrip('.')}.{_marked(traced)}"


def _marked(traced: Traced) -> str:
    marked = [f"{name} {show(one.host_s, 's')}" for name, one in traced.phases.items() if one.host_s]
    return f" On the CPU its marks last: {', '.join(marked)}." if marked else ""


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]


def _only_counters(phase: TracedPhase) -> bool:
    """Whether all that is known of a phase are single kernels that were replayed for their counters."""
    seen = phase.speed_of_light
    return seen is not None and not phase.steps and seen.kernels >= phase.kernels


def _by_counters(phase: TracedPhase, name: TracePhase) -> str:
    """``the 3 kernels with counters are memory-bound (compute 22%, memory 91%) by NVIDIA's rule``."""
    seen = phase.speed_of_light
    assert seen is not None
    whose = "the" if name == "unknown" else f"{name}'s"
    who = (
        f"{whose} kernel with counters is"
        if seen.kernels == 1
        else f"{whose} {seen.kernels:,} kernels with counters are"
    )
    if seen.rule == "not measured":
        return f"{who} not judged: their compute and memory throughput were not collected"
    return f"{who} {seen.rule}-bound{_rule(seen)}"


def _rule(seen: SpeedOfLight) -> str:
    return f" ({_percent(seen.compute)} compute, {_percent(seen.memory)} memory) by NVIDIA's rule"


def _bound(phase: TracedPhase, name: TracePhase) -> str:
    found = phase.verdict
    if found is None:
        return ""
    if found.alarm:
        return f"; no verdict: {found.alarm.text.rstrip('.')}"
    many = name in ("mixed", "unknown")
    if found.bound == "unknown":
        why = found.why_null or found.attention_why_null
        return f"{_figure(found)}; what {'they are' if many else 'it is'} bound on cannot be said: {why}"
    by_counters = found.floor is None and found.bound not in ("overhead", "communication")
    seen = phase.speed_of_light
    means = _rule(seen) if by_counters and seen else _MEANS.get(found.called, "")
    if many:
        means = means.replace("its kernels", "their kernels")
    return f" and {'are' if many else 'is'} {found.called}{means}{_figure(found)}"


def _figure(found: TraceVerdict) -> str:
    """``, at least 29% MBU while the device is busy``."""
    if not found.utilisations:
        return ""
    figure = found.utilisations[0]
    value = f"{figure.value.one_sided} {show(figure.value.value, '1', 2)}".lstrip()
    return f", {value} {figure.yardstick.upper()} while the device is busy"
