"""What kinds of tokens an answer holds: reasoning, padding after its end, drafts that were accepted."""

from __future__ import annotations

import statistics

from phasewise.isolate.checks.evidence import Evidence, many
from phasewise.isolate.sample import Sample, Shape
from phasewise.record.observation import Check
from phasewise.units import show

MISCOUNT = 0.02
"""Difference of tokens per chunk from one that is told."""

VARIES = 0.15
"""Difference of tokens per chunk between answers that is told."""

PADDING, LEAST_PADDING = 0.25, 8
"""Part of an answer, and tokens, without text at its end that is padding: incomplete characters are short."""


def reasoning(evidence: Evidence) -> list[Check]:
    """Are the tokens of thinking among those that the server counts? Silent about answers without any."""
    samples = [s for s in evidence.sent("decode") if any(chunk.thinking for chunk in s.answer.chunks)]
    if not samples:
        return []
    thought = statistics.median(sum(chunk.thinking for chunk in s.answer.chunks) for s in samples)
    spoken = [next((c.at for c in s.answer.chunks if not (c.thinking or c.empty)), None) for s in samples]
    later = [at - s.answer.first_at for at, s in zip(spoken, samples, strict=True) if at is not None]
    text = f"{many(thought, 'chunk')} of a typical answer were reasoning"
    text += (
        f", and the first token of the answer proper came {show(statistics.median(later), 's')} later" if later else ""
    )
    if sum(map(_uncounted, samples)) > len(samples) / 2:
        count = statistics.median(s.counted[0] for s in samples)
        text += f"; usage counts {many(count, 'token')} and leaves them out, so no time per token is right"
        return [Check(name="reasoning", phase="decode", status="failed", detail=text, voids=True)]
    text += "; they are counted, and TTFT is to the first of any kind"
    return [Check(name="reasoning", phase="decode", status="passed", detail=text)]


def _uncounted(sample: Sample) -> bool:
    """Whether the count fits without the chunks of thinking and not with them."""
    shown = [chunk for chunk in sample.answer.chunks if not chunk.empty]
    spoken = sum(not chunk.thinking for chunk in shown)
    silent = all(chunk.tokens == 0 for chunk in shown if chunk.thinking)
    return sample.counted[0] < len(shown) and (sample.counted[0] <= spoken or silent)


def padding(evidence: Evidence) -> list[Check]:
    """Do answers go on without text after their end?"""
    samples = [s for s in evidence.sent("decode") if s.carrying]
    if not samples:
        return []
    blank = statistics.median(_blank_end(s) for s in samples)
    tokens = statistics.median(s.counted[0] for s in samples)
    if blank < max(LEAST_PADDING, PADDING * tokens):
        return [Check(name="padding", phase="decode", status="passed", detail="answers have text up to their end")]
    text = (
        f"the last {many(blank, 'token')} of {tokens:,.0f} have no text: padding after the end of the answer is counted"
    )
    return [Check(name="padding", phase="decode", status="failed", detail=text)]


def _blank_end(sample: Sample) -> int:
    blank = 0
    for chunk in reversed(sample.carrying):
        if not chunk.empty:
            break
        blank += chunk.tokens or 1
    return blank


def chunks_per_token(evidence: Evidence) -> list[Check]:
    """Is a chunk a token? If not, TPOT by the usage count stays right, but gaps between chunks are ICL, not ITL."""
    samples = [s for s in evidence.sent("decode") if s.carrying]
    if not samples:
        return []
    if all(s.counted[1] == "chunks" for s in samples):
        text = "nobody but the chunks counted the tokens"
        return [Check(name="chunks_per_token", phase="decode", status="not_checked", detail=text)]
    tokens, chunks = sum(s.counted[0] for s in samples), sum(len(s.carrying) for s in samples)
    text = f"{many(tokens, 'token')} came in {many(chunks, 'chunk')}, {tokens / chunks:.2f} per chunk"
    if abs(tokens / chunks - 1) <= MISCOUNT:
        return [Check(name="chunks_per_token", phase="decode", status="passed", detail=text)]
    text += f"{_varies(samples)}: TPOT is by tokens and stays right; a gap between chunks is not the time of a token"
    return [Check(name="chunks_per_token", phase="decode", status="failed", detail=text)]


def _varies(samples: list[Sample]) -> str:
    """How tokens per chunk differ between answers: what drafts of accepted tokens do."""
    found: dict[Shape, list[float]] = {}
    for sample in samples:
        found.setdefault(sample.shape, []).append(sample.counted[0] / len(sample.carrying))
    first, last = min(found), max(found)
    short, long = statistics.median(found[first]), statistics.median(found[last])
    text = ""
    if max(found[first]) > (1 + VARIES) * min(found[first]):
        text += f", from {min(found[first]):.2f} to {max(found[first]):.2f} between answers, and TPOT with them"
    if short > (1 + VARIES) * long:
        text += f", {short:.2f} after {many(first.prompt, 'token')} and {long:.2f} after {last.prompt:,}"
        text += ": fewer drafts are accepted at long contexts"
    return text
