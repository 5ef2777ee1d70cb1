"""Asking one request at a time and keeping everything that came back."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import NamedTuple

from phasewise.engines.base import Activity, Engine
from phasewise.errors import EngineError
from phasewise.isolate.sample import Sample, Shape
from phasewise.record.observation import Phase

SNAPSHOT_EVERY_S = 0.3
"""The server's counters are read no more often than this: reading them is load too."""

SETTLE_S = 0.05
"""Counters may trail the answer they count: a server that looks busy is asked once more after this long."""


class Progress(NamedTuple):
    """What is being measured, how many requests were answered, and the part of the budget that is spent (0 to 1)."""

    phase: Phase
    doing: str
    requests: int
    fraction: float


class Snapshot(NamedTuple):
    """The server's counters while we were idle, and what we had sent and received by then."""

    activity: Activity
    prompt_tokens: int
    output_tokens: int


class Session:
    """The one place that talks to the engine.

    ``clock`` (seconds) is what the budget is held against; a test may pass one that does not run.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        budget_s: float,
        progress: Callable[[Progress], None] | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.engine = engine
        self.samples: list[Sample] = []
        self.snapshots: list[Snapshot] = []
        self.began = clock()
        self._budget = budget_s
        self._progress = progress
        self._clock = clock
        self._next_snapshot = 0.0

    def left(self) -> float:
        """Seconds of the budget that are left; negative when it is overspent."""
        return self.began + self._budget - self._clock()

    def ask(self, phase: Phase, shape: Shape, *, warmup: bool = False) -> Sample:
        """Send one request of ``shape`` and keep its sample.

        Raises:
            EngineError: the engine failed; what was kept before stays.
        """
        self._tell(phase, shape, warmup)
        self.snapshot()
        prompt = self.engine.prompt(shape.prompt)
        lag = _oversleep()
        cpu, wall = time.process_time(), self._clock()
        answer = self.engine.ask(prompt, shape.answer)
        sample = Sample(
            phase=phase,
            shape=shape,
            sent_tokens=prompt.tokens,
            answer=answer,
            warmup=warmup,
            cpu_s=time.process_time() - cpu,
            wall_s=self._clock() - wall,
            lag_s=lag,
        )
        self.samples.append(sample)
        return sample

    def snapshot(self, *, now: bool = False) -> None:
        """Read the server's counters, unless that was done just before; ``now`` insists."""
        if not now and self._clock() < self._next_snapshot:
            return
        activity = self._activity()
        if activity is not None and (activity.running or activity.waiting):
            time.sleep(SETTLE_S)
            activity = self._activity()
        if activity is not None:
            self.snapshots.append(Snapshot(activity, *self.tokens()))
        self._next_snapshot = self._clock() + SNAPSHOT_EVERY_S

    def tokens(self) -> tuple[int, int]:
        """Tokens sent and received so far."""
        return sum(s.prompt_tokens for s in self.samples), sum(s.counted[0] for s in self.samples)

    def expected_prefill(self, tokens: int) -> float:
        """Seconds that a prompt of ``tokens`` should take when warm, from those seen so far; 0 before the first.

        Beyond the longest prompt seen: its time grows by the power of length that the two longest showed, 0 to 2.
        """
        best: dict[int, float] = {}
        for sample in self.samples:
            if not sample.warmup:
                length, ttft = sample.shape.prompt, sample.answer.ttft
                best[length] = min(ttft, best.get(length, ttft))
        seen = sorted(best.items())
        if not seen:
            return 0.0
        for length, ttft in seen:
            if length >= tokens:
                return ttft
        (last, ttft), power = seen[-1], 1.0
        if len(seen) > 1:
            power = math.log(ttft / seen[-2][1]) / math.log(last / seen[-2][0])
        return float(ttft * (tokens / last) ** min(2.0, max(0.0, power)))

    def _activity(self) -> Activity | None:
        try:
            return self.engine.activity()
        except EngineError:
            return None  # counters are evidence, not the measurement: without them the check says so

    def _tell(self, phase: Phase, shape: Shape, warmup: bool) -> None:
        if self._progress:
            doing = f"{'warming up, ' if warmup else ''}{shape.prompt:,} tokens in, {shape.answer:,} out"
            spent = 1 - self.left() / self._budget if self._budget > 0 else 1.0
            self._progress(Progress(phase, doing, len(self.samples), min(1.0, max(0.0, spent))))


def _oversleep() -> float:
    start = time.perf_counter()
    time.sleep(0.001)
    return time.perf_counter() - start - 0.001
