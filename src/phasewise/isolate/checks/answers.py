"""Were the answers streamed, counted and as long as asked?"""

from __future__ import annotations

import statistics
from collections import Counter

from phasewise.isolate.checks.evidence import Evidence, many
from phasewise.isolate.sample import Sample
from phasewise.record.observation import Check
from phasewise.units import show

LEAST_TOKENS = 16
"""Shorter answers are no decode profile."""

LEAST_READS = 0.25
"""Reads per chunk below which somebody collected the chunks on the way."""

HELD_BACK = 0.02
HELD_CHUNKS = 2
"""Part of an answer, and chunks, that may arrive together with its first token (a busy client reads two at once). TPOT
comes out too small by about this part."""

UNBUFFER = "turn streaming on in the server and buffering off in every proxy in between (nginx: proxy_buffering off)"

LATE, LATE_S = 0.25, 5e-3
"""Part of an answer's time, and time, by which its first token may come later than that of the prompt alone."""

CUT = 0.9
"""A prompt counted as fewer than this part of its tokens, like all longer ones, was cut."""

KEPT_BACK = 2
"""Chunks of an answer that may show text without a token."""

MISCOUNT = 0.02
"""Difference between prompt lengths as sent and as counted that is told."""


def streamed(evidence: Evidence) -> list[Check]:
    """Did the answers arrive as they were made?"""
    sent = evidence.sent("decode")
    samples = [s for s in sent if s.counted[0] >= LEAST_TOKENS]
    if not samples:
        text = f"no answer had {LEAST_TOKENS} tokens"
        return [Check(name="streamed", phase="decode", status="not_checked", detail=text)] if sent else []
    if any(s.at_once for s in samples):
        return [Check(name="streamed", phase="decode", status="failed", detail=_at_once(samples))]
    whole = sum(not s.answer.streamed for s in samples)
    if whole:
        text = (
            f"{whole} of {many(len(samples), 'answer')} came as one piece although a stream was asked for: {UNBUFFER}"
        )
        return [Check(name="streamed", phase="decode", status="failed", detail=text, voids=True)]
    chunks = statistics.median(len(s.carrying) for s in samples)
    reads = statistics.median(len({chunk.read for chunk in s.carrying}) for s in samples)
    held = statistics.median(_with_first(s) for s in samples)
    until = statistics.median(s.answer.ttft / (s.answer.ended_at - s.answer.sent_at) for s in samples)
    text = f"a typical answer came in {many(reads, 'read')} of {many(chunks, 'chunk')}"
    text += f", its first token after {until:.0%} of its time"
    if reads < max(3, LEAST_READS * chunks) or held > max(HELD_CHUNKS, HELD_BACK * chunks):
        text += f", {many(held, 'chunk')} with it" if held else ""
        text += f": something between engine and client collects the stream; {UNBUFFER}"
        return [Check(name="streamed", phase="decode", status="failed", detail=text, voids=True)]
    late = _late(evidence, samples)
    if late is not None:
        text += f", {show(late, 's')} later than that of the same prompt with one token asked for: the beginning of an"
        text += f" answer is held back, by a parser or on the way; {UNBUFFER}"
        return [Check(name="streamed", phase="decode", status="failed", detail=text, voids=True)]
    return [Check(name="streamed", phase="decode", status="passed", detail=text)]


def _at_once(samples: list[Sample]) -> str:
    share = statistics.median(s.answer.ttft / (s.answer.ended_at - s.answer.sent_at) for s in samples)
    return (
        f"answers come only when they are complete: the first token after {share:.0%} of their time, later the longer "
        f"they are; decode is the difference of two answer lengths. To see tokens as they are made, {UNBUFFER}"
    )


def _late(evidence: Evidence, samples: list[Sample]) -> float | None:
    """By how much the first token of answers comes later than a prefill takes; None when it is not worth telling."""
    alone = {shape.prompt: statistics.median(s.answer.ttft for s in g) for shape, g in evidence.prefill.items() if g}
    found = []
    for sample in samples:
        as_long = [ttft for prompt, ttft in alone.items() if prompt >= sample.shape.prompt]
        if as_long:
            late = sample.answer.ttft - as_long[0]
            whole = sample.answer.ended_at - sample.answer.sent_at
            found.append(late if late > max(LATE * whole, LATE_S + 5 * sample.lag_s) else 0.0)
    late = statistics.median(found) if found else 0.0
    return late or None


def _with_first(sample: Sample) -> int:
    """Chunks that came in the same read as the first."""
    carrying = sample.carrying
    return sum(chunk.read == carrying[0].read for chunk in carrying) - 1 if carrying else 0


def tokens_by_usage(evidence: Evidence) -> list[Check]:
    """Did the server count the tokens, and do its counts agree with what was seen?"""
    return [*_prompt_counts(evidence.sent("prefill")), *_answer_counts(evidence.sent("decode"))]


def _prompt_counts(samples: list[Sample]) -> list[Check]:
    if not samples:
        return []
    missing = sum(s.answer.prompt_tokens is None for s in samples)
    if missing:
        text = f"{missing} of {many(len(samples), 'answer')} gave no prompt token count; lengths are as sent"
        return [Check(name="tokens_by_usage", phase="prefill", status="failed", detail=text)]
    cut = [s for s in samples if s.prompt_tokens < CUT * s.sent_tokens]
    most = max(s.prompt_tokens for s in samples)
    if 0 < len(cut) < len(samples) and all(s.prompt_tokens == most < s.sent_tokens for s in cut):
        text = (
            f"{many(len(cut), 'prompt')} of up to {max(s.sent_tokens for s in cut):,} tokens were counted as {most:,}"
        )
        text += ": the server cuts longer ones without saying so"
        return [Check(name="tokens_by_usage", phase="prefill", status="failed", detail=text)]
    counts = {s.prompt_tokens for s in samples}
    if min(counts) < 1 or (len(counts) == 1 and len({s.sent_tokens for s in samples}) > 1):
        text = (
            f"the server counted {min(counts):,} tokens in prompts of {len({s.sent_tokens for s in samples})} lengths"
        )
        return [Check(name="tokens_by_usage", phase="prefill", status="failed", detail=text, voids=True)]
    off = max(abs(s.prompt_tokens - s.sent_tokens) / s.sent_tokens for s in samples)
    text = f"the server counted the tokens of {many(len(samples), 'prompt')}"
    text += f", up to {off:.0%} off the length sent; its counts are used" if off > MISCOUNT else ", as long as sent"
    return [Check(name="tokens_by_usage", phase="prefill", status="passed", detail=text)]


def _answer_counts(samples: list[Sample]) -> list[Check]:
    if not samples:
        return []
    by, missing = (
        Counter(s.counted[1] for s in samples).most_common()[0][0],
        sum(s.answer.completion_tokens is None for s in samples),
    )
    if missing:
        told = {
            "usage": "the others are counted by usage",
            "token ids": "tokens are counted by the token ids in each chunk",
            "length": "an answer that ended by length is taken to have the tokens asked for",
            "chunks": "chunks are counted as tokens, which a chunk with several tokens makes wrong",
        }[by]
        text = f"{missing} of {many(len(samples), 'answer')} gave no token count; {told}"
        return [Check(name="tokens_by_usage", phase="decode", status="failed", detail=text, voids=by == "chunks")]
    for sample in samples:
        # A chunk or two may hold text that was kept back, and no token of its own.
        shown = sum(not chunk.empty for chunk in sample.answer.chunks) - KEPT_BACK
        tokens, visible = sample.counted[0], max(shown, sum(not chunk.empty for chunk in sample.carrying))
        if tokens > sample.shape.answer or tokens < visible:
            text = f"the server counted {many(tokens, 'token')} in an answer"
            text += f"; {sample.shape.answer:,} were asked for, {many(visible, 'chunk')} came"
            text += ": it counts something else (words, retokenised text, answers without reasoning)"
            return [Check(name="tokens_by_usage", phase="decode", status="failed", detail=text, voids=True)]
        if sample.answer.finish_reason == "length" and tokens == visible < (1 - MISCOUNT) * sample.shape.answer:
            text = f"the server counted {many(tokens, 'token')} in an answer that ended by length at"
            text += f" {sample.shape.answer:,}: it counts its chunks"
            return [Check(name="tokens_by_usage", phase="decode", status="failed", detail=text, voids=True)]
    text = f"the server counted the tokens of {many(len(samples), 'answer')}"
    text += f", {sum(s.counted[0] for s in samples):,} in all"
    return [Check(name="tokens_by_usage", phase="decode", status="passed", detail=text)]


def ended_by_length(evidence: Evidence) -> list[Check]:
    """Was every answer as long as asked?"""
    samples = evidence.sent("decode")
    if not samples:
        return []
    early = [s for s in samples if s.counted[0] < s.shape.answer or s.answer.finish_reason not in ("length", None)]
    unproven = [s for s in samples if s.answer.finish_reason is None and s.counted[1] == "chunks"]
    typical = statistics.median(s.counted[0] for s in samples)
    asked = statistics.median(s.shape.answer for s in samples)
    if early:
        reasons = ", ".join(sorted({repr(s.answer.finish_reason)[:40] for s in early}))
        text = f"{len(early)} of {many(len(samples), 'answer')} ended early ({reasons})"
        text += f": {many(typical, 'token')} of {asked:,.0f} asked for"
        voids = typical < LEAST_TOKENS
        return [Check(name="ended_by_length", phase="decode", status="failed", detail=text, voids=voids)]
    if unproven:
        text = f"{len(unproven)} of {many(len(samples), 'answer')} gave neither a finish reason nor a token count"
        return [Check(name="ended_by_length", phase="decode", status="not_checked", detail=text)]
    text = (
        f"{len(samples)} of {many(len(samples), 'answer')} had the tokens asked for ({asked:,.0f}) and ended by length"
    )
    return [Check(name="ended_by_length", phase="decode", status="passed", detail=text)]
