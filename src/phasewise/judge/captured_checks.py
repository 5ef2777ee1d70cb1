"""Whether a recording holds one phase alone and all of it: its steps against what was sent."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence

from phasewise.isolate.recorded import Sent
from phasewise.record.capture import CapturedName
from phasewise.record.observation import Check, CheckStatus
from phasewise.record.trace import Tokens, TraceFile, TracePhase, TraceStep

Made = tuple[str, CheckStatus | None, str]
"""A check: its name, how it came out (None: it does not apply), what was seen."""


def checks(name: CapturedName, sent: Sent, steps: Sequence[TraceStep]) -> list[Check]:
    """What shows that the recording of ``sent`` is clean."""
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
    for rank in by_rank(steps):
        answers = [step.decode for step in rank if step.decode and step.decode.tokens]
        if name != "prefill" and any((one.requests, one.tokens) != (sent.batch, sent.batch) for one in answers):
            odd = next(one for one in answers if (one.requests, one.tokens) != (sent.batch, sent.batch))
            said = f"a step decoded {odd.tokens} tokens of {odd.requests} requests where {sent.batch} were sent"
            fewer = (odd.requests or 0) < sent.batch
            why = "they were held up, or replicas shared them" if fewer else "others use the server"
            return called, "failed", f"{said}: {why}, or a verify step of speculation"
        if name == "decode" and (wrong := _contexts(sent, answers)):
            return called, "failed", wrong
        got = sum(step.prefill.tokens or 0 for step in rank if step.prefill)
        if name != "decode" and got != sum(sent.prompt_tokens):
            said = f"the steps hold {got:,} prompt tokens, {sum(sent.prompt_tokens):,} were sent"
            why = "a prefix cache gave some of them" if got < sum(sent.prompt_tokens) else "others use the server"
            return called, "failed", f"{said}: {why}"
        if name == "prefill" and not passes(rank, sent.prompt_tokens):
            return called, "failed", "the steps do not add up to the prompts one by one: others use the server"
    return called, "passed", _sent_words(name, sent, steps)


def _contexts(sent: Sent, answers: Sequence[Tokens]) -> str:
    """What is wrong with the contexts of the decode steps of a rank, in order; empty when nothing is, or none is said.

    From step to step every request attends to one token more, and all steps lie between what the client had received
    before the recorder started and after it stopped.
    """
    told = [one.context for one in answers if one.context is not None]
    if any(after - before != sent.batch for before, after in itertools.pairwise(told)):
        return f"the contexts of the steps do not grow by {sent.batch} a step, as those of the requests sent"
    if told and sent.contexts and not sent.contexts[0] <= told[0] <= told[-1] <= sent.contexts[1]:
        least, most = sent.contexts
        return (
            f"the steps attend to {told[0]:,} to {told[-1]:,} tokens, where the requests sent had {least:,} to {most:,}"
        )
    return ""


def _sent_words(name: CapturedName, sent: Sent, steps: Sequence[TraceStep]) -> str:
    prompts = f"{sum(sent.prompt_tokens):,} tokens of {len(sent.prompt_tokens)} prompts"
    decoded = f"{sent.batch} {'token' if sent.batch == 1 else 'tokens'} in each decode"
    told = [step.decode.context for step in steps if step.decode and step.decode.context is not None]
    seen = f", which attend to {min(told):,} to {max(told):,} tokens" if told else ""
    return {"prefill": prompts, "decode": f"{decoded} step{seen}", "mixed": f"{prompts}, {decoded}"}[name]


def _uncached(sent: Sent) -> Made:
    if not sent.prompt_tokens:
        return "uncached", None, ""
    known = [tokens for tokens in sent.cached_tokens if tokens is not None]
    if not known:
        return "uncached", "not_checked", "the server does not say how many prompt tokens came from its cache"
    if any(known):
        return "uncached", "failed", f"{max(known):,} tokens of a prompt came from the server's prefix cache"
    return "uncached", "passed", f"no token of {len(known)} prompts came from a prefix cache"


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


def by_rank(steps: Sequence[TraceStep]) -> list[list[TraceStep]]:
    """The steps of each rank, in order."""
    ranks: dict[int, list[TraceStep]] = {}
    for step in steps:
        ranks.setdefault(step.rank, []).append(step)
    return [sorted(rank, key=lambda step: step.start_s) for rank in ranks.values()]
