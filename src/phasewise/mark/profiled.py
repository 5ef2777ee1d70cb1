"""Both phases of a model in this process, each alone, in loops of at least 200 ms."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from phasewise.errors import UsageError
from phasewise.mark.clock import Clock, clock
from phasewise.mark.greedy import Greedy

LOOP_S = 0.2
"""Least seconds of a timed loop: clocks settle, and a power counter that ticks every 100 ms sees it."""

_FEWEST = 3
"""Passes at least."""


class Timed(NamedTuple):
    """One phase: ``seconds`` of each pass, of ``requests`` with ``tokens`` new tokens each after ``context`` others.

    In decode the context grows from step to step: it is the mean.
    """

    requests: int
    tokens: int
    context: float
    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """Seconds of a typical pass."""
        return statistics.median(self.seconds)

    @property
    def rate(self) -> float:
        """New tokens of all requests per second."""
        return self.requests * self.tokens / self.median


class Profile(NamedTuple):
    """Both phases, and what ``phasewise.judged`` needs to judge them.

    ``config`` is the model's own (a mapping; empty for a model without), ``dtype`` that of its parameters
    (``bfloat16``), ``device`` where they lie (``cpu``, ``cuda:0``).
    """

    prefill: Timed
    decode: Timed
    config: dict[str, Any]
    dtype: str
    device: str


def profile(model: Any, prompt_tokens: int, answer_tokens: int, batch: int) -> Profile:
    """Prefill ``batch`` prompts of random tokens, then decode, over and over until each phase took `LOOP_S`.

    Raises:
        UsageError: see ``Greedy``; or numbers that cannot be.
    """
    if min(prompt_tokens, batch) < 1 or answer_tokens < 2:
        raise UsageError("A profile takes prompts of 1 token or more, answers of 2 or more, a batch of 1 or more.")
    greedy, timer = Greedy(model), clock(model)
    ids = random_ids(model, batch, prompt_tokens)

    def answered(tokens: int, first: int) -> tuple[float, ...]:
        return looped(lambda: greedy.answer(ids, tokens, timer), timer, first)

    prefill = Timed(batch, prompt_tokens, 0.0, answered(1, 0))
    decode = Timed(batch, 1, prompt_tokens + (answer_tokens - 1) / 2, answered(answer_tokens, 1))
    inner = getattr(model, "_orig_mod", model)
    parameter = next(inner.parameters())
    config = inner.config.to_dict() if hasattr(getattr(inner, "config", None), "to_dict") else {}
    return Profile(prefill, decode, config, str(parameter.dtype).removeprefix("torch."), str(parameter.device))


def looped(once: Callable[[], Sequence[Any]], timer: Clock, first: int = 0) -> tuple[float, ...]:
    """Seconds of the passes of ``once``, run over and over until they add up to `LOOP_S`.

    Args:
        once: makes some passes, and gives the moments (of ``timer``) before the first and after each.
        timer: the clock.
        first: how many passes at the beginning of each run do not count.
    """

    def runs(times: int) -> list[list[float]]:
        taken = [once() for _ in range(times)]
        return [timer.seconds(list(pairwise(moments)))[first:] for moments in taken]

    # The first run warms up (allocator, autotuning, compilation), the second says how many make a loop.
    runs(1)
    span = max(1e-6, sum(runs(1)[0]))
    found: list[list[float]] = []
    while (missing := LOOP_S - sum(map(sum, found))) > 0 or len(found) < _FEWEST:
        found += runs(max(_FEWEST - len(found), math.ceil(1.1 * missing / span)))
    return tuple(seconds for one in found for seconds in one)


def random_ids(model: Any, rows: int, length: int) -> Any:
    """Random token ids [rows, length] on the model's device; the user's random state is left as it is."""
    import torch

    inner = getattr(model, "_orig_mod", model)
    vocabulary = inner.get_input_embeddings().num_embeddings
    drawn = torch.randint(0, vocabulary, (rows, length), generator=torch.Generator().manual_seed(0))
    return drawn.to(next(inner.parameters()).device)
