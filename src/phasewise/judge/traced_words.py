"""The verdict on a trace in sentences."""

from __future__ import annotations

from phasewise.judge import traced_parts
from phasewise.judge.sentence import BOUNDS
from phasewise.judge.traced_parts import MeanTime
from phasewise.predict.traced import MeanStep
from phasewise.record.judgement import Bound
from phasewise.record.trace import Traced, TracedPhase, TracePhase
from phasewise.units import show

_LATE_S = 50e-6
"""A kernel that starts sooner than this after its launch found an idle device: it waited for the host."""

_IDLE = 0.5
"""A device that is busy for less of the time than this is said to be idle in the answer."""

_OVERHEAD = {
    "launches": "launch-bound (the device waits for kernels that are launched one by one)",
    "host": "host-bound (the device waits for the host)",
    "copies": "bound by copies",
}
"""A bound of ``overhead`` by the largest part of it."""

_OWNERS: dict[TracePhase, str] = {
    "prefill": "Prefill owns",
    "decode": "Decode owns",
    "mixed": "Mixed steps, which hold both phases, own",
    "unknown": "Steps whose phase could not be told own",
}


def why(bound: Bound, phase: TracedPhase, time: MeanTime, mean: MeanStep | None, why_null: str) -> str:
    """One sentence on ``bound``, with its numbers."""
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
    if mean:
        return f"The least time that its work allows is {show(mean.floor_s, 's')}, {part(mean.floor_s)}."
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
    rule = "latency-bound, since both are under 60%" if seen.rule == "latency" else f"{seen.rule}-bound"
    return f"Counters of {seen.kernels} kernels say {sides}: by NVIDIA's rule {rule}."


def _percent(value: float | None) -> str:
    return "not measured" if value is None else show(value / 100, "1", 2)


def answer(traced: Traced) -> str:
    """Which phase owns the GPU time and what it is bound on."""
    times = {name: phase.gpu_time_s for name, phase in traced.phases.items()}
    total = sum(times.values())
    if total <= 0:
        marked = [f"{name} {show(one.host_s, 's')}" for name, one in traced.phases.items() if one.host_s]
        said = f" On the CPU its marks last: {', '.join(marked)}." if marked else ""
        return f"No kernel of the trace belongs to a step, so no phase owns its time.{said}"
    owner = max(times, key=lambda name: times[name])
    present = [name for name, seconds in times.items() if seconds > 0]
    where = "the operators' time" if traced.on_cpu else "the GPU time"
    text = f"{_OWNERS[owner]} {show(times[owner] / total, '1', 2)} of {where}{_bound(traced.phases[owner], owner)}."
    if len(present) == 1 and owner in ("prefill", "decode"):
        other = "decode" if owner == "prefill" else "prefill"
        text += f" The trace holds no {other}, so nothing is said of it."
    if traced.busy_fraction is not None and traced.busy_fraction < _IDLE:
        text += f" Over the whole trace the device was busy {show(traced.busy_fraction, '1', 2)} of the time."
    return text


def _bound(phase: TracedPhase, name: TracePhase) -> str:
    found = phase.verdict
    if found is None:
        return ""
    if found.alarm:
        return f"; no verdict: {found.alarm.text.rstrip('.')}"
    many = name in ("mixed", "unknown")
    if found.bound == "unknown":
        return f"; what {'they are' if many else 'it is'} bound on cannot be said: {found.why_null}"
    words = BOUNDS[found.bound]
    if found.bound == "overhead":
        words = next(_OVERHEAD[part.name] for part in found.parts if part.name in _OVERHEAD)
    if many:
        words = words.replace("its kernels", "their kernels")
    figure = found.utilisations[0] if found.utilisations else None
    at = f", {show(figure.value.value, '1', 2)} {figure.yardstick.upper()} while the device is busy" if figure else ""
    return f" and {'are' if many else 'is'} {words}{at}"
