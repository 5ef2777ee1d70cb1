"""The lengths of a log's requests, and the steps that they make."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np

from phasewise.observe.logs.histogram import CHUNK, Histogram, Tally
from phasewise.observe.logs.rows import Real

Steps = Iterable[tuple[Real, Real]]
"""Steps of one phase: where they are (prompt tokens, or tokens of context) and how many there are of each."""


class Lengths(NamedTuple):
    """The requests of a log, or of several.

    ``starts`` and ``ends`` are of the requests that were answered: tokens before the answer, and after it.
    """

    prompt: Histogram
    answer: Histogram
    starts: Histogram
    ends: Histogram

    @property
    def requests(self) -> int:
        """How many."""
        return self.prompt.seen

    def prefills(self) -> Iterator[tuple[Real, Real]]:
        """Each prompt length and how many prompts have it. An empty prompt is no prefill."""
        for tokens, prompts in self.prompt.chunks():
            some = tokens > 0
            yield tokens[some], prompts[some]

    def decodes(self) -> Iterator[tuple[Real, Real]]:
        """Each context and how many decode steps there are at it, over all requests.

        The first token comes from prefill, the k-th step sees the prompt and k tokens: a request of p in and a out
        decodes at contexts p+1 ... p+a-1. So at context c there are as many steps as requests that started below c and
        have not ended by c, and the two histograms give the sum over all requests exactly.
        """
        if not self.starts.seen:
            return
        for first in range(int(self.starts.values[0]) + 1, self.ends.largest, CHUNK):
            contexts = np.arange(first, min(first + CHUNK, self.ends.largest), dtype=np.int64)
            steps = self.starts.below(contexts) - self.ends.below(contexts + 1)
            some = steps > 0
            yield contexts[some].astype(np.float64), steps[some].astype(np.float64)

    def beyond(self, context: int) -> tuple[int, int]:
        """Tokens, of prompts and answers, that stand beyond the first ``context`` of their request; all tokens."""
        answers = self.ends.above(context) - self.starts.above(context)
        return self.prompt.above(context) + answers, self.prompt.total + self.answer.total


def total(steps: Steps, cost: Callable[[Real], float | Real]) -> float:
    """The sum of ``cost`` over all of ``steps``."""
    return sum(float(np.dot(cost(at) + 0.0 * at, count)) for at, count in steps)


def together(parts: Iterable[Lengths]) -> Lengths:
    """Several logs as one."""
    tallies = [Tally() for _ in Lengths._fields]
    for part in parts:
        for tally, histogram in zip(tallies, part, strict=True):
            tally.merge(histogram)
    return Lengths(*(tally.histogram() for tally in tallies))
