"""What a request should take, from those seen: what the budget is planned by."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from phasewise.isolate.sample import Sample, Shape

DOUBT = 1.2
"""A request may always take longer than the best of its like by this factor, even when none was seen to."""

ALIKE = 4.0
"""Requests of which one takes no longer than this many times the other are held up alike: a straggler of milliseconds
says nothing about seconds."""

RECENT = 24
"""So many requests back, the machine may have been another: what held it up then may have ended."""


class Costs:
    """Expected times, in seconds, of requests by their shape; ``samples`` may grow between the calls.

    All rest on the best sample of each shape: the first may have been cold and any may have been held up, but none was
    early. What holds requests up is seen from the repeats.
    """

    def __init__(self, samples: Sequence[Sample]) -> None:
        self._samples = samples
        self._steps: list[tuple[int, float]] = []
        self._read = 0

    def best(self, shape: Shape) -> float:
        """Time of ``shape`` when nothing holds it up; 0 before anything is known."""
        seen = [s.wall_s for s in self._samples if s.shape == shape and not s.warmup]
        return min(seen) if seen else self.prefill(shape.prompt) + (shape.answer - 1) * self.step(shape.prompt)

    def likely(self, shape: Shape) -> float:
        """Time of ``shape`` as requests typically turn out."""
        best = self.best(shape)
        return best * statistics.median(self._overruns(best) or [1.0])

    def most(self, shape: Shape) -> float:
        """Time of ``shape`` when it is held up as much as any like it lately was."""
        best = self.best(shape)
        return best * max([DOUBT, *self._overruns(best)])

    def prefill(self, tokens: int) -> float:
        """Time of a prompt of ``tokens`` at its best; 0 before the first.

        Beyond the longest prompt seen it grows by the power of length that the two longest showed, but by no less than
        the length itself and no more than its square.
        """
        best: dict[int, float] = {}
        for sample in self._samples:
            if not sample.warmup:
                length, ttft = sample.shape.prompt, sample.answer.ttft
                best[length] = min(ttft, best.get(length, ttft))
        if not best:
            return 0.0
        if longer := [ttft for length, ttft in best.items() if length >= tokens]:
            return min(longer)
        (last, ttft), *before = sorted(best.items(), reverse=True)[:2]
        power = math.log(ttft / before[0][1]) / math.log(last / before[0][0]) if before else 1.0
        return float(ttft * (tokens / last) ** min(2.0, max(1.0, power)))

    def step(self, prompt: int) -> float:
        """Time per token of an answer after ``prompt`` tokens at its best.

        Before the first answer: as long as the shortest prompt, for a step does less than any prefill does.
        """
        # Reading a step off a long answer takes a while, so each is read once.
        new, self._read = self._samples[self._read :], len(self._samples)
        self._steps.extend((sample.shape.prompt, _step(sample)) for sample in new if sample.phase == "decode")
        if not self._steps:
            return self.prefill(1)
        near = min(prompt, max(length for length, _ in self._steps))
        return min(step for length, step in self._steps if length >= near)

    def _overruns(self, seconds: float) -> list[float]:
        """By which factors recent requests that take about ``seconds`` exceeded the best of their shape.

        The first prompt of a length is left out, as it may have been cold. When none took about as long: of the shape
        that came nearest.
        """
        shapes: dict[Shape, list[tuple[int, Sample]]] = {}
        for number, sample in enumerate(self._samples, start=RECENT - len(self._samples)):
            if not sample.warmup:
                shapes.setdefault(sample.shape, []).append((number, sample))
        groups: list[tuple[float, list[float]]] = []
        for (_, answer), samples in shapes.items():
            best = min(sample.wall_s for _, sample in samples)
            warm = samples[1:] if answer == 1 else samples
            recent = [sample.wall_s / best for number, sample in warm if number >= 0 and len(samples) > 1 and best > 0]
            if recent:
                groups.append((best, recent))
        if not groups or seconds <= 0:
            return []
        apart = [abs(math.log(best / seconds)) for best, _ in groups]
        within = max(math.log(ALIKE), min(apart))
        return [
            over for distance, (_, overs) in zip(apart, groups, strict=True) if distance <= within for over in overs
        ]


def _step(sample: Sample) -> float:
    """Seconds per token of ``sample``; of its whole time when the tokens came in a burst."""
    whole = sample.wall_s / max(1, sample.counted[0])
    return max(1e-6, whole if sample.tpot is None or sample.tpot < whole / 4 else sample.tpot)
