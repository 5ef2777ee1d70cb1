"""A captured phase: the client's time per step beside its trace, what neither explains, and whether it is clean.

Per step four times are known: the client's without a profiler (C) and with it (P), the trace's (T), and in it the union
of the kernels (K) inside the span of the step (S). Then C = K + (S - K) + (T - S) + (P - T) - (P - C): kernels, gaps
inside the step, what lies between two steps, what the trace does not see (the front end: HTTP, tokenising, scheduling,
detokenising), less the profiler's own cost. P and T are of the same steps, so their difference is no noise of two runs.
All are medians, so that one step that a flush held up decides nothing.
"""

from __future__ import annotations

import itertools
import statistics
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from phasewise.isolate.recorded import Sent
from phasewise.judge import alarm
from phasewise.judge.captured_checks import by_rank, checks, passes
from phasewise.judge.utilisation import whole
from phasewise.model import work
from phasewise.model.model import Model
from phasewise.model.work import Work
from phasewise.predict.roofline import Roof, floor
from phasewise.record.capture import Captured, CapturedName, CapturedPart
from phasewise.record.judgement import Utilisation
from phasewise.record.observation import Check, Phase, PrefillObservation
from phasewise.record.quantity import Quantity, measured, predicted, reported
from phasewise.record.sweep import Cell
from phasewise.record.trace import TracePhase, TraceStep
from phasewise.units import show

AGREE = 0.05
"""A trace whose step is within this part of the client's agrees with it."""


CLOCK_S = 1e-9
"""Both clocks count nanoseconds: a smaller difference is rounding."""


class Steps(NamedTuple):
    """Seconds of one step of a trace, medians: from start to start (of a prompt: start to end), span, union, sum."""

    whole: float
    span: float
    union: float
    kernels: float


class Timed(NamedTuple):
    """What a client saw without a profiler.

    Attributes:
        prefill: prompts alone; None when none were timed.
        held: the batch that decoded together; None when none was.
        why_not: why its time cannot stand beside a trace; empty when it can.
    """

    prefill: PrefillObservation | None = None
    held: Cell | None = None
    why_not: str = ""


class Ground(NamedTuple):
    """What utilisations are taken on."""

    model: Model
    roof: Roof


def compared(
    name: CapturedName, sent: Sent, steps: Sequence[TraceStep], timed: Timed, ground: Ground | None = None
) -> Captured:
    """The phase ``name``, of which ``sent`` was recorded and ``steps`` came, beside what a client ``timed``."""
    counts: Counter[TracePhase] = Counter(step.phase for step in steps)
    found = Captured(
        name=name,
        requests=sent.requests,
        prompt_tokens=sent.prompt_tokens,
        batch=sent.batch,
        steps=dict(counts),
        context=sent.context,
        client=client(name, sent, timed),
        slowed=_slowed(name, sent),
        checks=tuple(checks(name, sent, steps)),
        marked=tuple(steps) if name == "mixed" else (),
    )
    times = _times(name, sent, steps)
    if times is None or name == "mixed":
        why = "" if name == "mixed" else "the trace does not show which of its steps belong to a request"
        return msgspec.structs.replace(found, why_null=why)
    traced = reported(times.whole, "s", f"the trace's clock, median of {_many(name, sent, steps)}")
    found = msgspec.structs.replace(
        found,
        traced=traced,
        kernels=reported(times.kernels, "s", "sum of a step's kernels in the trace, median"),
    )
    busy = reported(times.union, "s", "the time in which kernels of a step ran, median")
    found = _judged(found, timed, busy, ground)
    by_client, slowed = found.client, found.slowed
    if by_client is None:
        return msgspec.structs.replace(found, why_null=_untimed(name, sent, timed))
    agrees = abs(times.whole - by_client.value) <= AGREE * by_client.value
    if slowed is None:
        why = "what the profiler cost is open: no two tokens of a request came one by one while it ran"
        found = msgspec.structs.replace(found, agrees=agrees, why_null=why)
    else:
        found = msgspec.structs.replace(found, agrees=agrees, parts=_parts(name, times, by_client, slowed))
    return msgspec.structs.replace(found, text=_text(found, timed))


def untraced(name: CapturedName, sent: Sent, timed: Timed, why: str, ground: Ground | None = None) -> Captured:
    """The phase ``name``, whose trace was not read because of ``why``: what the client saw of it."""
    found = Captured(
        name=name,
        requests=sent.requests,
        prompt_tokens=sent.prompt_tokens,
        batch=sent.batch,
        context=sent.context,
        client=client(name, sent, timed),
        slowed=_slowed(name, sent) if name != "mixed" else None,
        why_null=why,
    )
    return found if name == "mixed" else _judged(found, timed, None, ground)


def client(name: CapturedName, sent: Sent, timed: Timed) -> Quantity | None:
    """Seconds per step of the client's run without a profiler, at the length or the batch that was recorded."""
    if name == "prefill" and timed.prefill is not None and sent.prompt_tokens:
        tokens = statistics.median(sent.prompt_tokens)
        near = min(timed.prefill.points, key=lambda point: abs(point.tokens - tokens))
        return near.ttft if abs(near.tokens - tokens) <= max(1.0, 0.02 * tokens) else None
    if name == "decode" and timed.held is not None and timed.held.batch == sent.batch and not timed.why_not:
        return timed.held.step
    return None


def _judged(found: Captured, timed: Timed, busy: Quantity | None, ground: Ground | None) -> Captured:
    """``found`` with the floor, MFU and MBU of its step: of the client's time, and of ``busy``, that of the kernels."""
    if ground is None:
        return found
    tokens = statistics.median(found.prompt_tokens) if found.prompt_tokens else None
    at = tokens if found.name == "prefill" else found.context
    at_client = tokens if found.name == "prefill" or timed.held is None else timed.held.context
    made: list[Utilisation] = []
    for place, seconds in ((at_client, found.client), (at, busy)):
        if place is not None and seconds is not None:
            done = _work(found, place, ground.model)
            made += whole(ground.roof, place, float(done.flops), float(done.bytes), seconds)
    phase: Phase = "prefill" if found.name == "prefill" else "decode"
    rung = [
        Check(
            name="possible", phase=phase, status="failed", detail=f"{one.text[:-1]}; likely {one.causes[0]}", voids=True
        )
        for one in alarm.of_phase(phase, tuple(made))
    ]
    least = None if at is None else float(floor(_work(found, at, ground.model), ground.roof))
    return msgspec.structs.replace(
        found,
        floor=None if least is None else predicted(least, "s", f"{ground.roof.basis} ceilings"),
        utilisations=tuple(made),
        checks=(*found.checks, *rung),
    )


def _work(found: Captured, at: float, model: Model) -> Work:
    """Of a prompt of ``at`` tokens, or of a step of the batch with a mean context of ``at``."""
    return work.prefill(model, at) if found.name == "prefill" else work.decode(model, at, float(found.batch))


def _slowed(name: CapturedName, sent: Sent) -> Quantity | None:
    value = sent.pass_s if name == "prefill" else sent.step_s
    return None if value is None else measured(value, "s", "by the client while the profiler ran, median")


def _many(name: CapturedName, sent: Sent, steps: Sequence[TraceStep]) -> str:
    if name == "prefill":
        return f"{sent.requests} prompts"
    return f"{sum(step.phase == name for step in steps)} steps"


def _times(name: CapturedName, sent: Sent, steps: Sequence[TraceStep]) -> Steps | None:
    """Medians over the passes of prefill, or over the steps of decode; None when there is none to be seen."""
    if name == "prefill":
        groups = [group for rank in by_rank(steps) for group in passes(rank, sent.prompt_tokens)]
        if not groups:
            return None
        wholes = [_end(group[-1]) - _begin(group[0]) for group in groups]
        spans = [sum(map(_length, group)) for group in groups]
        return Steps(
            statistics.median(wholes),
            statistics.median(spans),
            statistics.median(sum(step.union_s for step in group) for group in groups),
            statistics.median(sum(step.gpu_time_s for step in group) for group in groups),
        )
    own = [[step for step in rank if step.phase == "decode"] for rank in by_rank(steps)]
    periods = [after.start_s - step.start_s for rank in own for step, after in itertools.pairwise(rank)]
    every = [step for rank in own for step in rank]
    if not periods:
        return None
    return Steps(
        statistics.median(periods),
        statistics.median(map(_length, every)),
        statistics.median(step.union_s for step in every),
        statistics.median(step.gpu_time_s for step in every),
    )


def _begin(step: TraceStep) -> float:
    return step.start_s


def _end(step: TraceStep) -> float:
    return step.start_s + step.span_s


def _length(step: TraceStep) -> float:
    return step.span_s


def _parts(name: CapturedName, times: Steps, client: Quantity, slowed: Quantity) -> tuple[CapturedPart, ...]:
    one = "prompt" if name == "prefill" else "step"
    inside = f"inside the {one}: launches, and host work that nothing overlaps; longer under a profiler than without"
    between = (
        "between the chunks of a prompt: the scheduler"
        if name == "prefill"
        else "from one step to the next: sampling, and on a server the scheduler and the way to the worker"
    )
    front = (
        "before and after the prompt's steps: sampling, and on a server HTTP, tokenising, scheduling and detokenising"
        if name == "prefill"
        else "what tokens come apart more than the steps that make them, by the client in the same recording"
    )
    rows = (
        ("kernels", times.union, f"in which any of the {one}'s kernels ran"),
        ("gaps", times.span - times.union, inside),
        ("between", times.whole - times.span, between),
        ("front end", slowed.value - times.whole, front),
        ("profiler", client.value - slowed.value, f"what the profiler cost a {one}: the client's run was without it"),
    )
    source = "difference of the times above"
    return tuple(
        CapturedPart(
            name=part,  # type: ignore[arg-type]
            seconds=reported(value, "s", "union of kernels in the trace")
            if part == "kernels"
            else predicted(value, "s", source),
            means=means,
        )
        for part, value, means in ((part, _clocked(value), means) for part, value, means in rows)
    )


def _clocked(seconds: float) -> float:
    """``seconds``, and none where they are below what a clock tells."""
    return seconds if abs(seconds) >= CLOCK_S else 0.0


def _untimed(name: CapturedName, sent: Sent, timed: Timed) -> str:
    """Why no client's time stands beside the trace."""
    if name == "decode" and timed.why_not:
        return timed.why_not
    if name != "prefill" or timed.prefill is None or not sent.prompt_tokens:
        return "the phase was not timed by a client"
    return f"no client's time is at {sent.prompt_tokens[0]:,} tokens: allow more with --budget"


def _text(found: Captured, timed: Timed) -> str:
    """The comparison; where the recorded requests were longer or shorter than the timed ones, that too."""
    said = _beside(found)
    held, at = timed.held, found.context
    if found.name != "decode" or held is None or at is None or abs(at - held.context) <= AGREE * held.context:
        return said
    return f"{said[:-1]}; it was timed at {held.context:,.0f} tokens of context and recorded at {at:,.0f}."


def _beside(found: Captured) -> str:
    assert found.client is not None
    assert found.traced is not None
    one = "prompt" if found.name == "prefill" else "step"
    many = f" of {found.batch} requests" if found.batch > 1 else ""
    client, traced = found.client.value, found.traced.value
    off = (traced - client) / client
    head = f"a {one}{many} takes {show(client, 's')} by the client and {show(traced, 's')} by the trace ({off:+.1%})"
    if found.agrees:
        return f"{head}: they agree within {AGREE:.0%}."
    if found.slowed is None:
        return f"{head}; {found.why_null}."
    cost, front = found.slowed.value - client, found.slowed.value - traced
    words = []
    if cost > 0:
        words.append(f"the profiler made a {one} {show(cost, 's')} slower")
    elif cost < 0:
        words.append(f"the recorded run was {show(-cost, 's')} a {one} faster than the timed one")
    if front > 0:
        words.append(f"{show(front, 's')} lie outside of its steps")
    elif front < 0:
        words.append(f"the trace has {show(-front, 's')} a {one} more than the client saw of the same run")
    return f"{head}: {' and '.join(words)}." if words else f"{head}."
