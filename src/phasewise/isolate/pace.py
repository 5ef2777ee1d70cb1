"""What a group of requests should take, from those seen: what a sweep's budget is planned by."""

from __future__ import annotations

import math
from typing import NamedTuple

WINDOW_S = 0.5
"""A steady window takes about this long ..."""

LEAST_STEPS, MOST_STEPS = 24, 128
"""... but has no fewer and no more steps than these."""

RAMP_DOUBT = 1.5
"""The ramp before a window may be longer than expected by this factor."""


class Group(NamedTuple):
    """Requests to be sent together: tokens of each prompt and answer, seconds in all, and tokens in all."""

    prompt: int
    answer: int
    seconds: float
    tokens: int


class Pace:
    """Times of prefill by prompt length and of decode steps by batch, each at its best so far."""

    def __init__(self) -> None:
        self._prefill: dict[int, float] = {}
        self._step: dict[tuple[int, int], float] = {}
        self._ramp = 0.0

    def saw_prefill(self, tokens: int, seconds: float) -> None:
        """A prompt alone took ``seconds`` to its first token."""
        self._prefill[tokens] = min(seconds, self._prefill.get(tokens, math.inf))

    def saw_step(self, batch: int, prompt: int, seconds: float) -> None:
        """A step of ``batch`` requests with prompts of ``prompt`` took ``seconds``."""
        self._step[batch, prompt] = min(seconds, self._step.get((batch, prompt), math.inf))

    def saw_ramp(self, batch: int, prompt: int, tokens: int) -> None:
        """Before the last of ``batch`` prompts was in, the first stream had got ``tokens``."""
        expected = batch * self.prefill(prompt) / self.step(batch, prompt)
        if batch > 1:
            self._ramp = max(self._ramp, min(1.0, tokens / max(1.0, expected)))

    def outlast(self) -> None:
        """Take it from here on that the first streams get a token in every step while the other prompts come in."""
        self._ramp = 1.0

    @property
    def outlasting(self) -> bool:
        """Whether answers are planned to outlast the prompts of the others, whatever the server does first."""
        return self._ramp >= 1.0

    def prefill(self, tokens: int) -> float:
        """Seconds of one prompt; beyond the longest seen it grows by the power that the two longest showed, 1 to 2."""
        if longer := [seconds for length, seconds in self._prefill.items() if length >= tokens]:
            return min(longer)
        if not self._prefill:
            return 0.0
        (last, seconds), *before = sorted(self._prefill.items(), reverse=True)[:2]
        power = math.log(seconds / before[0][1]) / math.log(last / before[0][0]) if before else 1.0
        return float(seconds * (tokens / last) ** min(2.0, max(1.0, power)))

    def step(self, batch: int, prompt: int) -> float:
        """Seconds of a step; beyond what was seen it grows half as fast as batch and context."""
        if not self._step:
            return max(1e-3, self.prefill(1))

        def estimate(seen: tuple[int, int]) -> float:
            more = max(1.0, batch / seen[0]) * max(1.0, (prompt + 512) / (seen[1] + 512))
            return self._step[seen] * (1 + (more - 1) / 2)

        def distance(seen: tuple[int, int]) -> float:
            return abs(math.log(batch / seen[0])) + abs(math.log((prompt + 512) / (seen[1] + 512)))

        return estimate(min(self._step, key=distance))

    def steady(self, batch: int, prompt: int, room: int) -> Group:
        """A group that holds ``batch`` for a window's steps, answers of at most ``room`` tokens."""
        step, filling = self.step(batch, prompt), batch * self.prefill(prompt)
        window = max(LEAST_STEPS, min(MOST_STEPS, round(WINDOW_S / step)))
        ramp = math.ceil(RAMP_DOUBT * self._ramp * filling / step) + 4 if batch > 1 else 0
        answer = max(2, min(room, window + ramp))
        return Group(prompt, answer, filling + answer * step, batch * (prompt + answer))
