"""Prefill of one, two and four prompts at once, and of the lengths that the mix will use, alone."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import NamedTuple

from phasewise import fitting
from phasewise.isolate import plan
from phasewise.isolate.crowd import Crowd, Stream
from phasewise.isolate.pace import Pace
from phasewise.isolate.prefill import quantity
from phasewise.record.quantity import Quantity
from phasewise.record.sweep import AtOnce, Together

AT_ONCE = (1, 2, 4)

LENGTHS = (64, 256, 1024, 4096, 16_384)
"""Prompts that may be prefilled, and sent into running decodes."""

MOST_LENGTHS = 4

SINGLE_SHARE = 1 / 8
"""A prompt may take this part of the time for prefill; longer ones are not sent, but the shortest always is."""

AT_ONCE_SHARE = 1 / 3
"""Part of the time for prefill that one, two and four prompts at once, once each, may take."""

ROUNDS = 5

TRIES = 2
"""A request that failed may have been unlucky."""


class Pass(NamedTuple):
    """Prompts of ``tokens`` (by the server) sent at once: seconds until all had a token, and to the first of them."""

    tokens: int
    all_first: float
    first: float


class TogetherRun:
    """Sends prompts, one token of answer each, alone and at once; ``observe`` says what they show so far."""

    def __init__(self, crowd: Crowd, pace: Pace, *, longest: int) -> None:
        self._crowd, self._pace, self._longest = crowd, pace, longest
        self._passes: dict[tuple[int, int], list[Pass]] = {}
        self.lengths: list[int] = []
        self._shared = 0

    def run(self, until: float) -> str:
        """Send until ``until`` seconds of the budget are left; returns why it stopped.

        Raises:
            EngineError: the engine failed.
        """
        self._send(1, min(LENGTHS[0], self._longest))  # the first request of all may compile, load or connect
        self._passes.clear()
        allowed = self._crowd.left() - until
        for tokens in sorted({min(length, self._longest) for length in LENGTHS}):
            if self.lengths and self._pace.prefill(tokens) > SINGLE_SHARE * allowed:
                break
            if not self._send(1, tokens):
                break
            self.lengths.append(tokens)
        self.lengths = self.lengths[-MOST_LENGTHS:]
        if not self.lengths:
            return "the token budget was spent"
        fits = [n for n in self.lengths if sum(AT_ONCE) * self._pace.prefill(n) <= AT_ONCE_SHARE * allowed]
        self._shared = fits[-1] if fits else self.lengths[0]
        for number in range(ROUNDS):
            for many, tokens in [(1, tokens) for tokens in self.lengths] + [(k, self._shared) for k in AT_ONCE[1:]]:
                if many * self._pace.prefill(tokens) > self._crowd.left() - until:
                    return f"prompts were sent {number} times within the time for them"
                self._send(many, tokens)
        return f"prompts were sent {ROUNDS} times"

    def alone(self) -> dict[int, Quantity]:
        """TTFT of a prompt on the idle server, by the length asked for."""
        found = {tokens: _kept(passes) for (many, tokens), passes in self._passes.items() if many == 1}
        scatter = fitting.pooled([[one.all_first for one in passes] for passes in found.values()])
        return {
            tokens: _median([one.all_first for one in passes], scatter, "alone on the idle server")
            for tokens, passes in sorted(found.items())
        }

    def observe(self) -> Together | None:
        """Prompts at once; None when fewer than two were."""
        groups = {many: _kept(self._passes[many, self._shared]) for many in AT_ONCE if self._has(many)}
        if len(groups) < 2 or 1 not in groups:
            return None
        scatter = fitting.pooled([[one.all_first for one in passes] for passes in groups.values()])
        one = _median([p.all_first for p in groups[1]], scatter, "until its first token")
        rows = []
        for many, passes in groups.items():
            all_first = _median([p.all_first for p in passes], scatter, "until every prompt had its first token")
            rows.append(
                AtOnce(
                    prompts=many,
                    all_first=all_first,
                    ratio=all_first.over(one, unit="1", provenance="measured", source="over one prompt"),
                    apart=statistics.median((p.all_first - p.first) / p.all_first for p in passes),
                    samples=len(passes),
                )
            )
        return Together(tokens=groups[1][0].tokens, rows=tuple(rows))

    def _has(self, many: int) -> bool:
        return bool(self._passes.get((many, self._shared)))

    def _send(self, many: int, tokens: int) -> bool:
        self._crowd.tell(f"prefill: {many} × {tokens:,} tokens")
        if not self._crowd.affords(0.0, many * (tokens + 1)):
            return False
        for _ in range(TRIES):
            streams = self._crowd.ask(tokens, 1, many)
            if len(streams) == many:
                self._keep(tokens, streams)
                return True
        return False

    def _keep(self, tokens: int, streams: Sequence[Stream]) -> None:
        sent = min(stream.exchange.sent_at for stream in streams)
        firsts = [stream.exchange.first_at - sent for stream in streams]
        counted = round(statistics.median(stream.prompt_tokens for stream in streams))
        self._passes.setdefault((len(streams), tokens), []).append(Pass(counted, max(firsts), min(firsts)))
        if len(streams) == 1:
            self._pace.saw_prefill(tokens, max(firsts))


def _kept(passes: Sequence[Pass]) -> list[Pass]:
    """Those that are no warm-up."""
    return list(passes[plan.first_kept([one.all_first for one in passes], discard=min(1, len(passes) - 1)) :])


def _median(times: Sequence[float], scatter: fitting.Scatter, source: str) -> Quantity:
    return quantity(fitting.median_interval(times, scatter), "s", f"median of {len(times)}, {source}")
