"""The engine: steps, continuous batching, prefix cache, chunked prefill. It knows no clock and no wire."""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Sequence
from typing import Protocol

import msgspec

from phasewise.engines.simulated.physics import Clockwork, Work
from phasewise.engines.simulated.plan import Plan


class Sink(Protocol):
    """Where the tokens of a request go."""

    def prepare(self, tokens: int, last: bool) -> None:
        """Make ready what the running step will give; called when the step starts."""

    def flush(self, due: float) -> None:
        """Send it; called when the step ends, at ``due``."""


class Request:
    """One request inside the engine; all counts in tokens.

    ``step_s`` is what its options add to each decode step; ``first_due`` and ``due`` are the ends of the steps of its
    first and its latest token, monotonic seconds.
    """

    __slots__ = (
        "answer_tokens",
        "arrived",
        "cached",
        "computed",
        "due",
        "first_due",
        "generated",
        "needed",
        "prompt",
        "prompt_tokens",
        "sink",
        "started",
        "step_s",
    )

    def __init__(
        self,
        *,
        prompt: Sequence[object],
        prompt_tokens: int,
        answer_tokens: int,
        arrived: float,
        sink: Sink,
        step_s: float = 0.0,
    ) -> None:
        self.prompt = prompt
        self.prompt_tokens = prompt_tokens
        self.answer_tokens = answer_tokens
        self.arrived = arrived
        self.sink = sink
        self.step_s = step_s
        self.first_due = self.due = 0.0
        self.cached = 0
        self.computed = 0
        self.needed = prompt_tokens  # before its next token: after a preemption what was generated, too
        self.generated = 0
        self.started: float | None = None


class Emission(msgspec.Struct, frozen=True):
    """``tokens`` that ``request`` gains when the step ends; ``last`` when they complete its answer."""

    request: Request
    tokens: int
    last: bool


class Step(msgspec.Struct, frozen=True):
    """One engine step from ``start`` to ``due``, and what comes of it."""

    start: float
    due: float
    work: Work
    prefilled: tuple[tuple[Request, int], ...]
    emissions: tuple[Emission, ...]


class Counters(msgspec.Struct):
    """Totals since the server started, in tokens."""

    prompt_tokens: int = 0
    generation_tokens: int = 0
    cache_queries: int = 0
    cache_hits: int = 0


class Scheduler:
    """Which requests share the next step, and how long it takes."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._clockwork = Clockwork(plan)
        self._random = random.Random(plan.seed + 3)
        self._blocks: set[int] = set()
        self._others = OtherClient(plan) if plan.other_load else None
        self.waiting: deque[Request] = deque()
        self.running: list[Request] = []
        self.counters = Counters()

    @property
    def full(self) -> bool:
        """True when one more request would be one too many."""
        limit = self._plan.max_queue
        room = self._plan.max_batch - len(self.running)
        return limit is not None and len(self.waiting) >= limit + room

    def submit(self, request: Request) -> None:
        """Queue ``request``."""
        self.waiting.append(request)

    def cancel(self, request: Request) -> None:
        """Forget ``request``; safe when it is unknown or done."""
        if request in self.running:
            self.running.remove(request)
        elif request in self.waiting:
            self.waiting.remove(request)

    def next_arrival(self) -> float | None:
        """When the other client's next request arrives; None without one."""
        return self._others.next_at if self._others else None

    def begin(self, start: float) -> Step | None:
        """The step that starts at ``start``; None when nothing waits or runs."""
        if self._others:
            self.waiting.extend(self._others.arrivals(until=start))
        while self.waiting and self._fits(self.waiting[0]):
            self.running.append(self._admit(self.waiting.popleft(), start))
        self._preempt()
        prefilling = [request for request in self.running if request.computed < request.needed]
        decoding = [request for request in self.running if request.computed >= request.needed]
        if prefilling and self._plan.chunk_tokens is None:
            decoding = []  # a prefill pass of its own: running answers wait for it
        prefilled = self._share(prefilling)
        if not prefilled and not decoding:
            return None
        work = Work(
            chunks=tuple((request.computed, end) for request, end in prefilled),
            batch=len(decoding),
            context=sum(request.prompt_tokens + request.generated for request in decoding),
            extra=sum(request.step_s for request in decoding),
        )
        emissions = [self._emit(request, 1) for request, end in prefilled if end == request.needed]
        emissions += [self._emit(request, self._drafted(request, len(decoding))) for request in decoding]
        due = start + self._clockwork.duration(work, start)
        for emission in emissions:
            emission.request.due = due
            emission.request.first_due = emission.request.first_due or due
        return Step(start, due, work, tuple(prefilled), tuple(emissions))

    def finish(self, step: Step) -> None:
        """Account for ``step``, which has ended."""
        for request, end in step.prefilled:
            request.computed = end
            if end == request.needed == request.prompt_tokens:
                self.counters.prompt_tokens += request.prompt_tokens
                self._blocks.update(self._keys(request))
        for emission in step.emissions:
            emission.request.generated += emission.tokens
            self.counters.generation_tokens += emission.tokens
            if emission.last:
                self.cancel(emission.request)

    def _room(self) -> float:
        """Tokens that the KV cache still takes after the next step; negative when it has to give some up."""
        room = math.inf if self._plan.kv_tokens is None else self._plan.kv_tokens
        return room - sum(map(_held, self.running))

    def _preempt(self) -> None:
        """Send the latest back to the head of the queue while there is no room; it loses its cache."""
        while len(self.running) > 1 and self._room() < 0:
            request = self.running.pop()
            request.computed, request.needed = 0, request.prompt_tokens + request.generated
            self.waiting.appendleft(request)

    def _fits(self, request: Request) -> bool:
        """Whether ``request`` may run beside those that do; one alone always may."""
        return len(self.running) < self._plan.max_batch and (not self.running or _held(request) <= self._room())

    def _admit(self, request: Request, now: float) -> Request:
        if request.started is not None:
            return request
        request.started = now
        reusable = request.prompt_tokens - 1  # the last token is always computed: its logits give the first answer
        hit = min(self._plan.canned_prefix, reusable)
        if self._plan.prefix_cache:
            size = self._plan.block_tokens
            for index, key in enumerate(self._keys(request), start=1):
                if key not in self._blocks or index * size > reusable:
                    break
                hit = max(hit, index * size)
        if self._plan.prefix_cache or self._plan.canned_prefix:
            self.counters.cache_queries += request.prompt_tokens
            self.counters.cache_hits += hit
        request.cached = request.computed = hit
        if self._plan.computed_tokens is not None:
            request.computed = max(hit, request.prompt_tokens - self._plan.computed_tokens)
        return request

    def _keys(self, request: Request) -> list[int]:
        if not self._plan.prefix_cache:
            return []
        size, key, keys = self._plan.block_tokens, 0, []
        for at in range(0, len(request.prompt) - size + 1, size):
            key = hash((key, *request.prompt[at : at + size]))
            keys.append(key)
        return keys

    def _share(self, prefilling: list[Request]) -> list[tuple[Request, int]]:
        budget = self._plan.chunk_tokens
        if budget is None:
            return [(request, request.needed) for request in prefilling]
        shared = []
        for request in prefilling:
            tokens = min(budget, request.needed - request.computed)
            if tokens:
                shared.append((request, request.computed + tokens))
                budget -= tokens
        return shared

    def _drafted(self, request: Request, batch: int) -> int:
        """Tokens of a decode step of ``request``: one, and the drafts that were accepted in a row."""
        plan, tokens = self._plan, 1
        if plan.draft_batch is not None and batch > plan.draft_batch:
            return tokens
        accepted = plan.acceptance
        if plan.draft_context is not None:
            accepted *= max(0.0, 1 - (request.prompt_tokens + request.generated) / plan.draft_context)
        while tokens < plan.tokens_per_chunk and (accepted >= 1 or self._random.random() < accepted):
            tokens += 1
        return tokens

    def _emit(self, request: Request, tokens: int) -> Emission:
        left = request.answer_tokens - request.generated
        return Emission(request, min(tokens, left), tokens >= left)


def _held(request: Request) -> int:
    """Tokens of KV cache that ``request`` holds after its next token."""
    return request.prompt_tokens + request.generated + 1


class OtherClient:
    """Requests of another client, by a Poisson process; nobody reads their answers."""

    def __init__(self, plan: Plan) -> None:
        assert plan.other_load is not None
        self._load = plan.other_load
        self._random = random.Random(plan.seed + 1)
        self.next_at: float | None = None

    def arrivals(self, until: float) -> list[Request]:
        """Those that arrived up to ``until``; the first call starts the process."""
        if self.next_at is None:
            self.next_at = until + self._random.expovariate(self._load.rate)
        arrived = []
        while self.next_at <= until:
            arrived.append(
                Request(
                    prompt=(),
                    prompt_tokens=self._load.prompt,
                    answer_tokens=self._load.answer,
                    arrived=self.next_at,
                    sink=_NOBODY,
                )
            )
            self.next_at += self._random.expovariate(self._load.rate)
        return arrived


class _Nobody:
    def prepare(self, tokens: int, last: bool) -> None:
        pass

    def flush(self, due: float) -> None:
        pass


_NOBODY = _Nobody()
