"""An engine in memory with planted times on a clock of its own: the oracle, which shares no code with the product."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from phasewise.engines.base import Activity, Answer, Chunk, Prompt
from phasewise.errors import BrokenStream, Refused
from phasewise.record.target import Target


@dataclass
class Fake:
    """Times in seconds; every fault is off unless set.

    ``held_up`` gives the factor by which the request of a number (from 1) is slower; ``failures`` what it raises.
    """

    overhead: float = 5e-3
    per_token: float = 50e-6
    per_token2: float = 0.0
    step: float = 8e-3
    per_context: float = 50e-9
    max_context: int | None = 8192
    noise: float = 0.002
    delay: float = 50e-6
    seed: int = 1
    usage: bool = True
    cached: Callable[[int], int | None] = lambda tokens: 0
    ids: bool = True
    chunk_tokens: int = 1
    burst: int = 0
    early: int | None = None
    extra_usage: int = 0
    whole: bool = False
    reason: str | None = "length"
    cold: float = 0.0
    very_cold: float = 0.0
    drift: float = 0.0
    neighbour: float = 0.0
    counters: bool = True
    frozen: bool = False
    counted: Callable[[int], int] = lambda tokens: tokens
    neighbour_counts: bool = True
    refuse_over: int | None = None
    fail_at: int | None = None
    failure: BaseException = field(default_factory=lambda: BrokenStream("The stream ended early: try again."))
    held_up: Callable[[int], float] = lambda number: 1.0
    failures: dict[int, BaseException] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    now: float = 1000.0

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.asked: list[tuple[int, int]] = []
        self.payloads: list[tuple[int, ...]] = []
        self.began = self.now
        self.attempts = 0
        self.shapes: set[tuple[int, int]] = set()
        self.tokens_in = self.tokens_out = 0
        self.closed = False
        self.target = Target(
            name="fake",
            engine="fake",
            served_model="fake",
            prompting="token_ids",
            endpoint="/v1/completions",
            max_context=self.max_context,
            settings=self.settings,
        )

    def clock(self) -> float:
        return self.now

    def prompt(self, tokens: int) -> Prompt:
        payload = tuple(self.random.randrange(1000, 30000) for _ in range(min(tokens, 8)))
        self.payloads.append(payload)
        return Prompt(payload=payload, tokens=tokens, exact=True)

    def ttft(self, tokens: int) -> float:
        computed = tokens - (self.cached(tokens) or 0)
        return self.overhead + self.per_token * computed + self.per_token2 * computed * computed

    def tpot(self, context: float) -> float:
        return self.step + self.per_context * context

    def ask(self, prompt: Prompt, max_tokens: int) -> Answer:
        self.attempts += 1
        if self.attempts in self.failures:
            self.now += self.ttft(prompt.tokens)
            self.tokens_in += prompt.tokens  # it was computed, and nobody got the answer
            raise self.failures[self.attempts]
        if self.fail_at is not None and len(self.asked) + 1 >= self.fail_at:
            raise self.failure
        if self.refuse_over is not None and prompt.tokens > self.refuse_over:
            raise Refused("HTTP 400: the prompt is too long; ask for less.", status=400)
        shape = (prompt.tokens, max_tokens)
        cold = (self.cold if shape not in self.shapes else 0.0) + (0.0 if self.asked else self.very_cold)
        self.shapes.add(shape)
        self.asked.append(shape)
        sent, made = self.now, min(max_tokens, self.early or max_tokens)
        slow = (1 + self.drift * (sent - self.began) / 60) * self.held_up(self.attempts)
        moment = sent + cold + self._noisy(self.ttft(prompt.tokens) * slow) + self._held_up()
        arrivals = [(moment + self._late(), 1)]
        done = 1
        while done < made:
            tokens = min(self.chunk_tokens, made - done)
            moment += self._noisy(self.tpot(prompt.tokens + done) * slow) + self._held_up()
            done += tokens
            arrivals.append((moment + self._late(), tokens))
        self.now = moment + 2e-4
        self.tokens_in += prompt.tokens
        self.tokens_out += made
        chunks = self._chunks(arrivals)
        return Answer(
            sent_at=sent,
            headers_at=chunks[0].at,
            first_at=chunks[0].at,
            last_at=chunks[-1].at,
            ended_at=self.now,
            chunks=chunks,
            prompt_tokens=self.counted(prompt.tokens) if self.usage else None,
            completion_tokens=made + self.extra_usage if self.usage else None,
            cached_tokens=self.cached(prompt.tokens) if self.usage else None,
            finish_reason=self.reason if made == max_tokens else "stop",
            streamed=not self.whole,
        )

    def _chunks(self, arrivals: list[tuple[float, int]]) -> tuple[Chunk, ...]:
        """Chunks as the client sees them; with ``burst`` it gets that many at once, when the last of them is made."""
        chunks = []
        for index, (at, tokens) in enumerate(arrivals):
            read = index
            if self.burst:
                read = index // self.burst
                at = arrivals[min(len(arrivals), (read + 1) * self.burst) - 1][0]
            chunks.append(Chunk(at=at, read=read, tokens=tokens if self.ids else None, empty=False))
        return tuple(chunks)

    def _noisy(self, seconds: float) -> float:
        return seconds * self.random.gauss(1.0, self.noise)

    def _late(self) -> float:
        """A wake-up: usually about ``delay``, now and then some milliseconds."""
        return self.delay * self.random.uniform(0.5, 1.5) + (3e-3 if self.random.random() < 0.01 else 0.0)

    def _held_up(self) -> float:
        """What the other client's work adds to a step."""
        busy = self.random.random() < self.neighbour
        self.tokens_in += 200 * busy * self.neighbour_counts
        return 0.03 * busy

    def activity(self) -> Activity | None:
        if not self.counters:
            return None
        running = float(self.random.random() < self.neighbour) if self.neighbour_counts else 0.0
        tokens_in, tokens_out = (0, 0) if self.frozen else (self.tokens_in, self.tokens_out)
        return Activity(running=running, waiting=0.0, prompt_tokens=tokens_in, output_tokens=tokens_out)

    def close(self) -> None:
        self.closed = True
