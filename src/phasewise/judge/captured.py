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
from phasewise.record.capture import Captured, CapturedName, CapturedPart
from phasewise.record.observation import Check, CheckStatus, Observation
from phasewise.record.quantity import Quantity, measured, predicted, reported
from phasewise.record.trace import TraceFile, TracePhase, TraceStep
from phasewise.units import show

AGREE = 0.05
"""A trace whose step is within this part of the client's agrees with it."""


CLOCK_S = 1e-9
"""Both clocks count nanoseconds: a smaller difference is rounding."""

Made = tuple[str, CheckStatus | None, str]
"""A check: its name, how it came out (None: it does not apply), what was seen."""


class Steps(NamedTuple):
    """Seconds of one step of a trace, medians: from start to start (of a prompt: start to end), span, union, sum."""

    whole: float
    span: float
    union: float
    kernels: float


def compared(name: CapturedName, sent: Sent, steps: Sequence[TraceStep], seen: Observation | None) -> Captured:
    """The phase ``name``, of which ``sent`` was recorded and ``steps`` came, beside the client's run ``seen``."""
    counts: Counter[TracePhase] = Counter(step.phase for step in steps)
    found = Captured(
        name=name,
        requests=sent.requests,
        prompt_tokens=sent.prompt_tokens,
        batch=sent.batch,
        steps=dict(counts),
        client=client(name, sent, seen),
        slowed=_slowed(name, sent),
        checks=tuple(_checks(name, sent, steps)),
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
    by_client, slowed = found.client, found.slowed
    if by_client is None:
        return msgspec.structs.replace(found, why_null=_untimed(name, sent, seen))
    agrees = abs(times.whole - by_client.value) <= AGREE * by_client.value
    if slowed is None:
        why = "what the profiler cost is open: no two tokens of a request came one by one while it ran"
        found = msgspec.structs.replace(found, agrees=agrees, why_null=why)
    else:
        found = msgspec.structs.replace(found, agrees=agrees, parts=_parts(name, times, by_client, slowed))
    return msgspec.structs.replace(found, text=_text(found))


def untraced(name: CapturedName, sent: Sent, seen: Observation | None, why: str) -> Captured:
    """The phase ``name``, whose trace was not read because of ``why``: what the client saw of it."""
    return Captured(
        name=name,
        requests=sent.requests,
        prompt_tokens=sent.prompt_tokens,
        batch=sent.batch,
        client=client(name, sent, seen),
        slowed=_slowed(name, sent) if name != "mixed" else None,
        why_null=why,
    )


def client(name: CapturedName, sent: Sent, seen: Observation | None) -> Quantity | None:
    """Seconds per step of the client's run without a profiler, at the length or context that was recorded."""
    if seen is None:
        return None
    if name == "prefill" and seen.prefill is not None and sent.prompt_tokens:
        tokens = statistics.median(sent.prompt_tokens)
        near = min(seen.prefill.points, key=lambda point: abs(point.tokens - tokens))
        return near.ttft if abs(near.tokens - tokens) <= max(1.0, 0.02 * tokens) else None
    if name == "decode" and seen.decode is not None and sent.batch == 1:
        if seen.decode.fit is None or sent.context is None:
            return seen.decode.tpot
        source = f"fit of TPOT over context, at {sent.context:,.0f} tokens"
        return measured(seen.decode.fit.at(sent.context), "s", source)
    return None


def every_rank(name: CapturedName, files: Sequence[TraceFile], stated: int | None) -> Check:
    """Whether every worker wrote a file: as many as the engine says that it has, or as the files say of themselves."""
    phase = name if name != "mixed" else "run"
    worlds = [file.world for file in files if file.world]
    world = max([*worlds, *([stated] if stated else [])], default=0)
    if not world:
        detail = f"{len(files)} came, and neither the engine nor the files say how many workers there are"
        return Check(name="every_rank", phase=phase, status="not_checked", detail=detail)
    if len(files) < world:
        detail = f"{len(files)} of {world} workers wrote a trace: see whether the others run on another machine"
        return Check(name="every_rank", phase=phase, status="failed", detail=detail, voids=True)
    detail = f"{len(files)} of {world} {'worker' if world == 1 else 'workers'} wrote a trace"
    return Check(name="every_rank", phase=phase, status="passed", detail=detail, voids=True)


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
        groups = [group for rank in _by_rank(steps) for group in passes(rank, sent.prompt_tokens)]
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
    own = [[step for step in rank if step.phase == "decode"] for rank in _by_rank(steps)]
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


def passes(steps: Sequence[TraceStep], prompts: Sequence[int]) -> list[list[TraceStep]]:
    """The prefill steps of one rank by prompt: as many of them, in order, as hold its tokens.

    Without counts in the steps, one each, when there are as many as prompts. Empty when they do not fit.
    """
    own = [step for step in steps if step.phase == "prefill"]
    if any(step.tokens is None for step in own):
        return [[step] for step in own] if len(own) == len(prompts) else []
    groups, at = [], 0
    for tokens in prompts:
        group, have = [], 0
        while have < tokens and at < len(own):
            group.append(own[at])
            have += own[at].tokens or 0
            at += 1
        if have != tokens:
            return []
        groups.append(group)
    return groups if at == len(own) else []


def _by_rank(steps: Sequence[TraceStep]) -> list[list[TraceStep]]:
    ranks: dict[int, list[TraceStep]] = {}
    for step in steps:
        ranks.setdefault(step.rank, []).append(step)
    return [sorted(rank, key=lambda step: step.start_s) for rank in ranks.values()]


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


def _untimed(name: CapturedName, sent: Sent, seen: Observation | None) -> str:
    """Why no client's time stands beside the trace."""
    timed = None if seen is None else seen.prefill if name == "prefill" else seen.decode
    if timed is None:
        return "the phase was not timed by a client"
    at = f"{sent.prompt_tokens[0]:,} tokens" if name == "prefill" and sent.prompt_tokens else "what was recorded"
    return f"no client's time is at {at}: allow more with --budget"


def _text(found: Captured) -> str:
    assert found.client is not None
    assert found.traced is not None
    one = "prompt" if found.name == "prefill" else "step"
    client, traced = found.client.value, found.traced.value
    off = (traced - client) / client
    head = f"a {one} takes {show(client, 's')} by the client and {show(traced, 's')} by the trace ({off:+.1%})"
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


def _checks(name: CapturedName, sent: Sent, steps: Sequence[TraceStep]) -> list[Check]:
    phase = name if name != "mixed" else "run"
    made = [_alone(name, steps), _as_sent(name, sent, steps), _uncached(sent)]
    return [
        Check(name=check, phase=phase, status=status, detail=detail, voids=True)
        for check, status, detail in made
        if status
    ]


def _alone(name: CapturedName, steps: Sequence[TraceStep]) -> Made:
    called = "mix_labelled" if name == "mixed" else "one_phase"
    if not steps:
        return called, "failed", "the trace holds no step"
    counts = Counter(step.phase for step in steps)
    told = ", ".join(f"{count:,} {phase}" for phase, count in counts.most_common())
    ranks = len({step.rank for step in steps})
    many = f"{len(steps)} steps{f' of {ranks} ranks' if ranks > 1 else ''}"
    if name == "mixed":
        wrong = [step for step in steps if step.phase != _by_counts(step)]
        if wrong:
            return called, "failed", f"{len(wrong)} of {many} are not what their counts say"
        if not counts["mixed"]:
            alone = (
                "no step held both phases, so what a mixed one costs is open: chunked prefill is off, or the prompts"
            )
            return called, "not_checked", f"{many}: {told}; {alone} waited"
        return called, "passed", f"{many}: {told}"
    other = len(steps) - counts[name]
    if other:
        return called, "failed", f"{other} of {many} are of another phase: {told}"
    return called, "passed", f"all {many} are {name}"


def _by_counts(step: TraceStep) -> TracePhase:
    """What the token counts of a step alone say that it is; its own phase where it has none."""
    prompts, answers = bool(step.prefill and step.prefill.tokens), bool(step.decode and step.decode.tokens)
    if not (prompts or answers):
        return step.phase
    return "mixed" if prompts and answers else "prefill" if prompts else "decode"


def _as_sent(name: CapturedName, sent: Sent, steps: Sequence[TraceStep]) -> Made:
    """Whether the counts of every rank's steps are those of what was sent."""
    called = "tokens_as_sent"
    if not steps:
        return called, None, ""
    if all(step.prefill is None and step.decode is None for step in steps):
        return called, "not_checked", "no step of the trace says how many tokens it handled"
    for rank in _by_rank(steps):
        answers = [step.decode for step in rank if step.decode and step.decode.tokens]
        if name != "prefill" and any((one.requests, one.tokens) != (sent.batch, sent.batch) for one in answers):
            odd = next(one for one in answers if (one.requests, one.tokens) != (sent.batch, sent.batch))
            said = f"a step decoded {odd.tokens} tokens of {odd.requests} requests where {sent.batch} were sent"
            return called, "failed", f"{said}: others use the server, or a verify step of speculation"
        got = sum(step.prefill.tokens or 0 for step in rank if step.prefill)
        if name != "decode" and got != sum(sent.prompt_tokens):
            said = f"the steps hold {got:,} prompt tokens, {sum(sent.prompt_tokens):,} were sent"
            why = "a prefix cache gave some of them" if got < sum(sent.prompt_tokens) else "others use the server"
            return called, "failed", f"{said}: {why}"
        if name == "prefill" and not passes(rank, sent.prompt_tokens):
            return called, "failed", "the steps do not add up to the prompts one by one: others use the server"
    return called, "passed", _sent_words(name, sent)


def _sent_words(name: CapturedName, sent: Sent) -> str:
    prompts = f"{sum(sent.prompt_tokens):,} tokens of {len(sent.prompt_tokens)} prompts"
    decoded = f"{sent.batch} {'token' if sent.batch == 1 else 'tokens'} in each decode"
    return {"prefill": prompts, "decode": f"{decoded} step", "mixed": f"{prompts}, {decoded}"}[name]


def _uncached(sent: Sent) -> Made:
    if not sent.prompt_tokens:
        return "uncached", None, ""
    known = [tokens for tokens in sent.cached_tokens if tokens is not None]
    if not known:
        return "uncached", "not_checked", "the server does not say how many prompt tokens came from its cache"
    if any(known):
        return "uncached", "failed", f"{max(known):,} tokens of a prompt came from the server's prefix cache"
    return "uncached", "passed", f"no token of {len(known)} prompts came from a prefix cache"
