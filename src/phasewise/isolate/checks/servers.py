"""Do the server's own times agree with ours, and does it hand on what it makes when it makes it?"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Sequence

from phasewise.isolate import timings
from phasewise.isolate.checks.evidence import Evidence, many
from phasewise.isolate.sample import Sample
from phasewise.record.observation import Check, CheckStatus, Phase
from phasewise.record.timings import Beside
from phasewise.units import show

AGREE = 0.03
"""Difference from the server's own figure that needs no explanation."""

CLOCKS_S = 0.2e-3
"""Part of a TTFT by which two processes may disagree on when something was."""

LONG_GAP = 8
"""A gap of this many steps, with as many tokens after it, is no step: something held them back."""

HELD = 0.05
"""Part of an answer that may come so."""


def timings_agree(evidence: Evidence) -> list[Check]:
    """Are TTFT and TPOT what the server's own timings make of them, and if not, where is the rest?"""
    found = timings.observe(evidence.samples)
    if found is None:
        text = "the server tells no times of its own (vLLM does with --enable-per-request-metrics)"
        return [Check(name="timings_agree", phase="run", status="not_checked", detail=text)]
    checks = []
    for phase, told in _PHASES:
        rows = [row for row in found.rows if row.phase == phase]
        if rows:
            status, text = told(rows)
            text = f"{found.who}: {text}"
            checks.append(Check(name="timings_agree", phase=phase, status=status, detail=text))
    return checks


def _told(rows: Sequence[Beside]) -> tuple[CheckStatus, str]:
    """Prefill: what TTFT holds beside the prefill that the server states should be there once, not per token."""
    short, long = min(rows, key=_tokens), max(rows, key=_tokens)
    text = f"prefill of {many(long.tokens, 'token')} took {_value(long.theirs.value)}, our TTFT was "
    text += f"{_value(long.ours.value)}"
    rest, fixed = long.rest.value, short.rest.value
    if rest < -(AGREE * long.ours.value + CLOCKS_S):
        return "failed", f"{text}: less than the prefill in it, so one of them counts something else"
    share = abs(rest) / long.ours.value
    if share <= AGREE:
        return "passed", f"{text}, {share:.1%} apart"
    where = "the front end, the network and any queue"
    if short is long or rest - fixed <= AGREE * long.ours.value + CLOCKS_S:
        return "passed", f"{text}: {_value(rest)} a request are outside its prefill ({where})"
    per_token = (rest - fixed) / (long.tokens - short.tokens)
    return (
        "failed",
        f"{text}: {_value(rest)} are outside its prefill, {_value(per_token)} for each token more ({where}; or what it "
        "times is only a part of the prompt)",
    )


def _stepped(rows: Sequence[Beside]) -> tuple[CheckStatus, str]:
    """Decode: a step is a step, whoever times it."""
    worst = max(rows, key=lambda row: abs(row.ours.value / row.theirs.value - 1) if row.theirs.value > 0 else 0.0)
    text = f"a token took {_value(worst.theirs.value)}, our TPOT after {many(worst.tokens, 'token')} was "
    text += _value(worst.ours.value)
    apart = worst.ours.value / worst.theirs.value - 1 if worst.theirs.value > 0 else 0.0
    if abs(apart) <= AGREE:
        return "passed", f"{text}, {abs(apart):.1%} apart"
    if apart < 0:
        why = "the first token reached us late, or tokens were held back until the end"
    else:
        why = "the last token reached us late: the front end or the network is slower than the engine"
    return "failed", f"{text}, {apart:+.1%}: {why}"


_PHASES: tuple[tuple[Phase, Callable[[Sequence[Beside]], tuple[CheckStatus, str]]], ...] = (
    ("prefill", _told),
    ("decode", _stepped),
)


def held_back(evidence: Evidence) -> list[Check]:
    """Do tokens come when they are made, or after a gap in a burst?"""
    samples = [s for s in evidence.sent("decode") if s.answer.streamed and not s.at_once and len(s.carrying) > LONG_GAP]
    if not samples:
        return []
    found = [_held(sample) for sample in samples]
    share = statistics.median(tokens / sample.counted[0] for (tokens, _), sample in zip(found, samples, strict=True))
    if share <= HELD:
        text = f"{share:.0%} of a typical answer came after a gap of {LONG_GAP} steps or more"
        return [Check(name="held_back", phase="decode", status="passed", detail=text)]
    longest = max(gap for _, gap in found)
    text = (
        f"{share:.0%} of a typical answer came in bursts after gaps of up to {_value(longest)}, as many tokens as the "
    )
    text += (
        "gap had steps: a parser of tool calls or reasoning, or a busy front end, holds text back. TPOT is over the "
    )
    text += "whole answer and stays right; gaps between chunks are not those of tokens"
    return [Check(name="held_back", phase="decode", status="failed", detail=text)]


def _held(sample: Sample) -> tuple[int, float]:
    """Tokens that came in bursts after gaps that they account for, and the longest such gap in seconds."""
    reads: dict[int, tuple[float, int]] = {}
    for chunk in sample.carrying:
        tokens = reads.get(chunk.read, (0.0, 0))[1] + (1 if chunk.tokens is None else chunk.tokens)
        reads[chunk.read] = (chunk.at, tokens)
    came = list(reads.values())
    gaps = [(now - before, tokens) for (before, _), (now, tokens) in itertools.pairwise(came)]
    if not gaps:
        return 0, 0.0
    # Without counts in the chunks, a chunk of many tokens shows as what the chunks are short of.
    missing = max(0, sample.counted[0] - sum(tokens for _, tokens in came))
    step = statistics.median(gap / max(1, tokens) for gap, tokens in gaps)
    held, longest = 0, 0.0
    for gap, tokens in gaps:
        steps = gap / step if step > 0 else 0.0
        if steps >= LONG_GAP and tokens + missing >= steps / 2:
            held += max(tokens, min(tokens + missing, round(steps)))
            longest = max(longest, gap)
    return held, longest


def _tokens(row: Beside) -> int:
    return row.tokens


def _value(seconds: float) -> str:
    return show(seconds, "s")
