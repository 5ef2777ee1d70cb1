"""How long a planted step takes."""

from __future__ import annotations

import random
from collections import Counter

import msgspec

from phasewise.engines.simulated.plan import Plan


class Work(msgspec.Struct, frozen=True):
    """What one engine step computes.

    Attributes:
        chunks: prompt tokens from ``start`` to ``end`` of each prompt that is in prefill.
        batch: requests that decode.
        context: tokens before the step, summed over those requests.
        extra: seconds that their options (sampling, logprobs, a grammar) add.
    """

    chunks: tuple[tuple[int, int], ...]
    batch: int
    context: int
    extra: float = 0.0

    @property
    def shape(self) -> tuple[int, int]:
        """What a compiler would specialise on: prompt tokens and decoding requests."""
        return sum(end - start for start, end in self.chunks), self.batch


def planted(plan: Plan, work: Work) -> float:
    """Seconds of a step without faults: its prefill part plus its decode part.

    Prefill of tokens ``start`` to ``end`` costs a·(end - start) + b·(end² - start²): a·n + b·n² for a whole uncached
    prompt, and chunks of a prompt add up to the same, as attention of a later chunk reads the earlier ones.
    """
    seconds = 0.0
    if work.chunks:
        seconds += plan.prefill_overhead_s
        for start, end in work.chunks:
            seconds += plan.prefill_per_token_s * (end - start)
            seconds += plan.prefill_per_token2_s * (end * end - start * start)
    if work.batch:
        seconds += plan.decode_overhead_s + work.extra
        seconds += plan.decode_per_request_s * work.batch + plan.decode_per_context_token_s * work.context
        if plan.graph_batch is not None and work.batch > plan.graph_batch:
            seconds += plan.eager_step_s
    return seconds


class Clockwork:
    """Planted durations with their faults: first-time cost, idling, drift and noise."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._random = random.Random(plan.seed)
        self._shapes: Counter[tuple[int, int]] = Counter()
        self._first_at: float | None = None
        self._last_end = 0.0

    def duration(self, work: Work, at: float) -> float:
        """Seconds of the step that starts at ``at`` (monotonic seconds)."""
        plan = self._plan
        if self._first_at is None:
            self._first_at = self._last_end = at
        seconds = planted(plan, work) * (1 + plan.clock_drift * (at - self._first_at) / 60)
        if plan.jitter:
            seconds *= max(0.1, self._random.gauss(1.0, plan.jitter))
        self._shapes[work.shape] += 1
        if self._shapes[work.shape] <= plan.warmup_steps:
            seconds += plan.warmup_cost_s
        if at - self._last_end > plan.idle_after_s:
            seconds += plan.idle_penalty_s
        seconds = max(0.0, seconds)
        self._last_end = at + seconds
        return seconds
