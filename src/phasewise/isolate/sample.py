"""One request as it was measured, and what can be read off it."""

from __future__ import annotations

import itertools
from typing import Literal, NamedTuple

import msgspec

from phasewise.engines.base import Answer, Chunk
from phasewise.engines.exchange import Exchange
from phasewise.record.observation import Phase

CountedBy = Literal["usage", "token ids", "length", "chunks"]

STRETCH_TOKENS = 48
"""Least tokens in a stretch of an answer: shorter ones drown in the jitter of their two ends."""

MOST_STRETCHES = 4


class Shape(NamedTuple):
    """What was asked for: tokens of prompt and of answer. Samples of one shape repeat each other."""

    prompt: int
    answer: int


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One request.

    Attributes:
        phase: the phase it was sent for.
        shape: what was asked for.
        sent_tokens: length of the prompt as the engine made it.
        answer: what came back.
        warmup: True when it was sent only to warm the engine up.
        cpu_s: CPU time of this process while it waited for the answer.
        wall_s: wall time of the same.
        lag_s: by how much a sleep of a millisecond overran right before it.
        clock_moved_s: by how much the system's clock, which gives the kernel's stamps, was set meanwhile.
        at_once: the engine gives no token before the answer is complete, so TTFT is the time of the whole answer.
        number: of the request in its run.
    """

    phase: Phase
    shape: Shape
    sent_tokens: int
    answer: Answer
    warmup: bool
    cpu_s: float
    wall_s: float
    lag_s: float
    clock_moved_s: float = 0.0
    at_once: bool = False
    number: int = 0

    @property
    def prompt_tokens(self) -> int:
        """Prompt length by the server's usage, else as it was sent."""
        return self.sent_tokens if self.answer.prompt_tokens is None else self.answer.prompt_tokens

    @property
    def counted(self) -> tuple[int, CountedBy]:
        """Tokens of the answer and who counted them, the most trusted first."""
        answer = self.answer
        if answer.completion_tokens is not None:
            return answer.completion_tokens, "usage"
        ids = _known_tokens(answer.chunks)
        if ids is not None:
            return ids, "token ids"
        if answer.finish_reason == "length":
            return self.shape.answer, "length"
        return len(answer.chunks), "chunks"

    @property
    def tpot(self) -> float | None:
        """(last - first) / (tokens - 1), seconds; None with fewer than two tokens or no time between them.

        When the first chunk is known to hold k tokens, its time is that of token k, and tokens - k steps follow.
        """
        if self.at_once:
            return None
        carrying = self.carrying
        first = (carrying[0].tokens or 1) if carrying else 1
        steps = self.counted[0] - first
        span = self.answer.last_at - self.answer.first_at
        return span / steps if steps > 0 and span > 0 else None

    @property
    def repeatable(self) -> float:
        """What requests of one shape should share, seconds: TTFT; in decode TPOT times the tokens asked for."""
        return self.answer.ttft if self.phase == "prefill" or self.at_once else (self.tpot or 0.0) * self.shape.answer

    @property
    def carrying(self) -> tuple[Chunk, ...]:
        """The chunks that hold tokens: from the first to the last, without empty ones that are one too many."""
        answer = self.answer
        found = [c for c in answer.chunks if answer.first_at <= c.at <= answer.last_at and c.tokens != 0]
        if len(found) > self.counted[0]:
            found = [chunk for chunk in found if not chunk.empty]
        return tuple(found)

    def stretches(self) -> list[Stretch]:
        """The answer in up to four stretches; one when the server does not show which chunk held how many tokens."""
        tokens, _ = self.counted
        chunks = self.carrying
        if self.tpot is None:
            return []
        known = _known_tokens(chunks)
        if known == tokens:
            counts = [chunk.tokens or 0 for chunk in chunks]
        elif len(chunks) == tokens:
            counts = [1] * tokens
        else:
            return [Stretch(self.prompt_tokens + tokens / 2, tokens - 1, self.tpot)]
        parts = max(1, min(MOST_STRETCHES, tokens // STRETCH_TOKENS, len(chunks) - 1))
        done = [sum(counts[: i + 1]) for i in range(len(counts))]
        ends = [round(part * (len(chunks) - 1) / parts) for part in range(parts + 1)]
        found = []
        for start, end in itertools.pairwise(ends):
            steps = done[end] - done[start]
            span = chunks[end].at - chunks[start].at
            if steps > 0 and span > 0:
                # Token k is made after prompt + k - 1 tokens; the stretch makes tokens done[start] + 1 to done[end].
                context = self.prompt_tokens + (done[start] + done[end] - 1) / 2
                found.append(Stretch(context, steps, span / steps))
        return found


class Beside(NamedTuple):
    """A request that was sent beside the profiles: its answer, and the tokens of prompt and answer asked for."""

    exchange: Exchange
    shape: Shape

    @property
    def prompt_tokens(self) -> int:
        """Prompt length by the server's usage, else as it was sent."""
        counted = self.exchange.prompt_tokens
        return self.shape.prompt if counted is None else counted

    @property
    def counted(self) -> tuple[int, CountedBy]:
        """Tokens of the answer and who counted them."""
        counted = self.exchange.completion_tokens
        return (self.shape.answer, "length") if counted is None else (counted, "usage")


class Stretch(NamedTuple):
    """A part of an answer: mean tokens of context before its steps, tokens made, and seconds per token."""

    context: float
    tokens: int
    tpot: float


def _known_tokens(chunks: tuple[Chunk, ...]) -> int | None:
    counts = [chunk.tokens for chunk in chunks if chunk.tokens is not None]
    return sum(counts) if chunks and len(counts) == len(chunks) else None
