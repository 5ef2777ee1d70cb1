"""The mix: prompts sent into running decodes, one by one and at random, beside both phases alone."""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Sequence

import numpy as np

from phasewise import fitting
from phasewise.isolate.crowd import Crowd, Stream
from phasewise.isolate.held import times
from phasewise.isolate.pace import Pace
from phasewise.isolate.prefill import quantity
from phasewise.isolate.stalls import QUIET, Seen, chunk, interference, seen
from phasewise.record.quantity import Quantity, measured
from phasewise.record.sweep import Mix, Stall, Traffic

SHORT_PROMPT = 32

REPEATS = 4
"""Prompts of each length sent into each batch, at most."""

SPACE = QUIET + 4
"""Steps between a prompt's first token and the next prompt."""

USUAL_CHUNK = 256
"""Prompt tokens per step that are allowed for when answers are planned; chunks are 512 to 16,384 in most engines."""

SLACK = 1.15
"""Answers are longer than the prompts should need, by this factor."""

LOAD = 0.5
"""Part of the time that the random prompts alone would keep the server busy."""

LEAST_PROMPTS, ENOUGH_PROMPTS, MOST_PROMPTS = 8, 40, 80
"""Random prompts that make a mean, that a longer prompt is not chosen over, and that are sent at most."""

TRAFFIC_SHARE = 0.35
"""Part of the mix's time for random prompts."""


class MixRun:
    """Holds batches and disturbs them; ``observe`` says what was seen so far, whatever ended ``run``.

    Args:
        crowd, pace: what sends the requests, and what they should take.
        batches: decodes to hold, ascending; the server takes at least one request more than each.
        lengths: tokens of the prompts to send into them, ascending.
        room: tokens of prompt and answer together that a request may have.
    """

    def __init__(
        self, crowd: Crowd, pace: Pace, *, batches: Sequence[int], lengths: Sequence[int], room: int, seed: int = 0
    ) -> None:
        self._crowd, self._pace, self._room = crowd, pace, room
        self._batches, self._lengths = list(batches), list(lengths)
        self._short = min(SHORT_PROMPT, max(1, room // 4))
        self._random = random.Random(seed)
        self._seen: dict[int, list[Seen]] = {}
        self._traffic: Traffic | None = None

    def run(self, alone: dict[int, Quantity], until: float) -> str:
        """Disturb one batch after the other until ``until`` seconds of the budget are left; returns why it stopped.

        ``alone`` is TTFT on the idle server by prompt length.

        Raises:
            EngineError: the engine failed.
        """
        end = until + TRAFFIC_SHARE * (self._crowd.left() - until)
        skipped = [
            batch
            for done, batch in enumerate(self._batches)
            if not self._disturb(batch, end, len(self._batches) - done)
        ]
        if self._batches and alone:
            self._at_random(self._batches[len(self._batches) // 2], alone, until)
        if skipped:
            return f"there was no time for prompts among {', '.join(map(str, skipped))} decodes"
        return f"prompts of every length were sent up to {REPEATS} times into each batch"

    def observe(self, alone: dict[int, Quantity]) -> Mix | None:
        """What was seen; None when nothing was."""
        every = [one for found in self._seen.values() for one in found]
        if not every and self._traffic is None:
            return None
        return Mix(
            stalls=tuple(self._stalls(alone)),
            fit=interference(every),
            chunk=chunk(every),
            traffic=self._traffic,
        )

    def _stalls(self, alone: dict[int, Quantity]) -> list[Stall]:
        groups: dict[tuple[int, int], list[Seen]] = {}
        for batch, found in self._seen.items():
            for one in found:
                groups.setdefault((batch, one.tokens), []).append(one)
        scatter = {
            name: fitting.pooled([[max(1e-9, getattr(one, name)) for one in group] for group in groups.values()])
            for name in ("step", "stall", "slowest", "ttft")
        }
        return [
            _stall(batch, group, scatter, _near(alone, tokens)) for (batch, tokens), group in sorted(groups.items())
        ]

    def _disturb(self, batch: int, until: float, shares: int) -> bool:
        """Send prompts into ``batch`` decodes, each after the one before has its token and the decodes went on."""
        step = self._pace.step(batch, self._short)
        space = SPACE * step
        left = (self._crowd.left() - until) / shares
        filling = batch * self._pace.prefill(self._short)
        queue: list[int] = []
        needed = filling + space
        for number in range(REPEATS):
            for tokens in random.Random(number).sample(self._lengths, len(self._lengths)):
                more = self._pace.prefill(tokens) + space
                if filling + SLACK * (needed + more) <= left and (needed + more) * SLACK / step <= self._answers():
                    queue.append(tokens)
                    needed += more
        # While a prompt is computed the decodes get one token per chunk of it, or none.
        answer = math.ceil(SLACK * sum(SPACE + 4 + tokens / USUAL_CHUNK for tokens in [*queue, 0]))
        if not queue or not self._crowd.affords(needed, batch * (self._short + answer) + sum(queue)):
            return False
        self._crowd.tell(f"mix: {len(queue)} prompts into {batch:,} decodes")
        decodes, prompts = self._inject(batch, answer, queue, filling, space)
        found = seen(decodes, prompts) if len(decodes) == batch else []
        if found:
            self._seen.setdefault(batch, []).extend(found)
        return bool(found)

    def _answers(self) -> int:
        return self._room - self._short

    def _inject(
        self, batch: int, answer: int, queue: Sequence[int], filling: float, space: float
    ) -> tuple[list[Stream], list[Stream]]:
        """Decodes and the prompts sent among them, as answered."""
        keys = [self._crowd.submit(self._short, answer) for _ in range(batch)]
        due = time.perf_counter() + 2 * filling + space
        prompts: list[Stream] = []
        for tokens in queue:
            key = self._crowd.submit(tokens, 1, due=due)
            done: list[Stream] = []
            while not any(stream.exchange.key == key for stream in done):
                done += self._crowd.step(time.perf_counter() + space)
                if self._crowd.overrun():
                    break
            prompts += [stream for stream in done if stream.exchange.key == key and not stream.exchange.error]
            if any(stream.exchange.key in keys for stream in done) or self._crowd.overrun():
                # The decodes have ended: what is sent now disturbs nobody.
                ended = {stream.exchange.key for stream in done}
                return self._ended(keys, done, ended), prompts
            due = (prompts[-1].exchange.first_at if prompts else time.perf_counter()) + space
        return self._crowd.wait(keys), prompts

    def _ended(self, keys: Sequence[int], done: Sequence[Stream], ended: set[int]) -> list[Stream]:
        rest = self._crowd.wait([key for key in keys if key not in ended])
        return [stream for stream in (*done, *rest) if stream.exchange.key in keys and not stream.exchange.error]

    def _at_random(self, batch: int, alone: dict[int, Quantity], until: float) -> None:
        """Prompts at random moments, and how they and the decodes fare."""
        left = self._crowd.left() - until
        step = self._pace.step(batch, self._short)
        filling = batch * self._pace.prefill(self._short)

        def many(tokens: int) -> int:
            return min(MOST_PROMPTS, int((left / SLACK - filling) * LOAD / alone[tokens].value))

        fits = [tokens for tokens in alone if many(tokens) >= 2 * LEAST_PROMPTS]
        if not fits:
            return
        tokens = next((tokens for tokens in reversed(fits) if many(tokens) >= ENOUGH_PROMPTS), fits[0])
        service = alone[tokens].value
        span = many(tokens) * service / LOAD
        # What prefill takes of the time, decode does not get.
        answer = min(self._answers(), math.ceil(SLACK * (span + 4 * service) * (1 - LOAD) / step))
        span = min(span, answer * step / SLACK / (1 - LOAD))
        if not self._crowd.affords(span, batch * (self._short + answer) + many(tokens) * tokens):
            return
        self._crowd.tell(f"mix: prompts of {tokens:,} at random among {batch:,} decodes")
        keys = [self._crowd.submit(self._short, answer) for _ in range(batch)]
        at = time.perf_counter() + 2 * filling + SPACE * step
        until_then = at + span
        prompts: list[int] = []
        while at < until_then and len(prompts) < MOST_PROMPTS:
            prompts.append(self._crowd.submit(tokens, 1, due=at, arrival=True))
            at += self._random.expovariate(LOAD / service)
        answered = self._crowd.wait([*keys, *prompts])
        decodes = [stream for stream in answered if stream.exchange.key in keys]
        sent = [stream for stream in answered if stream.exchange.key not in keys]
        if len(decodes) == batch and len(sent) >= LEAST_PROMPTS:
            self._traffic = traffic(decodes, sent, alone[tokens])


def traffic(decodes: Sequence[Stream], prompts: Sequence[Stream], alone: Quantity) -> Traffic | None:
    """How ``prompts`` sent at random and ``decodes`` fared; None with too few of them among all decodes."""
    start = max(stream.exchange.first_at for stream in decodes)
    end = min(stream.exchange.last_at for stream in decodes)
    among = sorted(
        (one for one in prompts if one.exchange.sent_at > start and one.exchange.first_at < end),
        key=lambda one: one.exchange.sent_at,
    )
    if len(among) < LEAST_PROMPTS:
        return None
    every = [times(stream) for stream in decodes]
    first, last = among[0].exchange.sent_at, among[-1].exchange.first_at
    during = [one.between(first, last) for one in every]
    quiet = [one.between(start, first) for one in every]
    steps = [float(gap) for one in quiet for gap in np.diff(one.at)]
    ttfts = [one.exchange.ttft for one in among]
    tpots = [float((one.at[-1] - one.at[0]) / (one.tokens[-1] - one.tokens[0])) for one in during if len(one.at) > 1]
    gaps = np.concatenate([np.diff(one.at) for one in during])
    if not steps or not tpots or last <= first:
        return None
    rate = (len(among) - 1) / (among[-1].exchange.sent_at - first)
    return Traffic(
        batch=len(decodes),
        tokens=among[0].prompt_tokens,
        rate=measured(rate, "request/s", f"{len(among)} prompts as they were sent"),
        load=rate * alone.value,
        ttft_alone=alone,
        ttft=_mean(ttfts, f"mean of {len(ttfts)} prompts at random among decodes"),
        step_alone=measured(statistics.median(steps), "s", "median gap before the first of them"),
        tpot=measured(statistics.fmean(tpots), "s", "mean of the decodes, from the first prompt to the last"),
        itl_p99=measured(float(np.quantile(gaps, 0.99)), "s", f"of {len(gaps)} gaps"),
        arrivals=tuple(one.exchange.sent_at - first for one in among),
    )


def _mean(values: Sequence[float], source: str) -> Quantity:
    """Mean with the interval that independent values would have; waits that follow each other are not, quite."""
    middle, n = statistics.fmean(values), len(values)
    half = fitting.student(0.95, n - 1) * statistics.stdev(values) / math.sqrt(n)
    return measured(middle, "s", source, max(0.0, middle - half), middle + half)


def _stall(batch: int, group: Sequence[Seen], scatter: dict[str, fitting.Scatter], alone: Quantity | None) -> Stall:
    def median(name: str) -> Quantity:
        values = [max(1e-9, getattr(one, name)) for one in group]
        return quantity(fitting.median_interval(values, scatter[name]), "s", f"median of {len(values)} prompts")

    return Stall(
        batch=batch,
        tokens=group[0].tokens,
        step=median("step"),
        stall=median("stall"),
        slow_steps=statistics.median(one.slow for one in group),
        slowest=median("slowest"),
        ttft=median("ttft"),
        alone=alone,
        samples=len(group),
    )


def _near(alone: dict[int, Quantity], tokens: int) -> Quantity | None:
    """TTFT alone of the length asked for that the server counted as ``tokens``."""
    near = min(alone, key=lambda length: abs(length - tokens), default=None)
    return alone[near] if near is not None and abs(near - tokens) <= max(16, 0.1 * tokens) else None
