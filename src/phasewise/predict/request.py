"""One request alone on the machine: TTFT, then a decode step per further token at growing context."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from phasewise.model.architecture import Count
from phasewise.model.model import Model
from phasewise.predict.roofline import Roof, decode_floor, prefill_floor
from phasewise.record.prediction import RequestPrediction

ONE_BY_ONE = 4096
"""So many steps are added up one by one; of more, straight stretches are found and added up as such."""

_PROBES = np.array([[0.0], [0.1708203932], [0.4270509831], [0.7082039325], [1.0]])
"""Where a stretch is looked at: its ends, and places that no period (a chunk, a block) shares."""

_STRAIGHT = 1e-9
"""Part of its time by which a stretch may leave the line between its ends."""

_MOST_STRETCHES = 2**17
"""Bent stretches that are halved again; of more, a step's time jumps at every few tokens, and the mean of the probes
stands for each."""


def decode_time(step: Callable[[Count], Count], prompt: int, answer: int) -> float:
    """Seconds of the ``answer - 1`` decode steps after ``prompt`` tokens.

    ``step`` gives a step's seconds at a context (an array of any shape); the k-th step sees the prompt and k generated
    tokens. A step's time is piecewise linear in the context (a window fills, a chunk begins, another ceiling binds), so
    beyond ``ONE_BY_ONE`` steps the contexts are halved until each stretch is straight, and a straight stretch of n
    steps takes n times the mean of its ends: the sum within about 1e-9 of it, in bounded time and memory.
    """
    steps = answer - 1
    if steps < 1:
        return 0.0
    if steps <= ONE_BY_ONE:
        return float(np.sum(_seconds(step, prompt + np.arange(1.0, answer))))
    edges = np.floor(np.linspace(0.0, steps, ONE_BY_ONE // 4 + 1))
    first, size = prompt + 1.0 + edges[:-1], np.diff(edges)
    total = 0.0
    while first.size:
        offset = np.floor(_PROBES * (size - 1))
        seen = _seconds(step, first + offset)
        line = seen[0] + (seen[-1] - seen[0]) * offset / np.maximum(size - 1, 1)
        straight = np.all(np.abs(seen - line) <= _STRAIGHT * np.abs(seen), axis=0) | (size <= 2)
        total += float(np.sum((size * (seen[0] + seen[-1]) / 2)[straight]))
        first, size = first[~straight], size[~straight]
        if first.size > _MOST_STRETCHES:
            return total + float(np.sum(size * np.mean(seen[:, ~straight], axis=0)))
        half = size // 2
        first, size = np.concatenate([first, first + half]), np.concatenate([half, size - half])
    return total


def _seconds(step: Callable[[Count], Count], contexts: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.asarray(step(contexts) + 0.0 * contexts)


def request(model: Model, roof: Roof, prompt: int, answer: int) -> RequestPrediction:
    """The floor of a request of ``prompt`` tokens in and ``answer`` tokens out."""
    ttft = float(prefill_floor(model, roof, float(prompt)))
    rest = decode_time(lambda context: decode_floor(model, roof, context), prompt, answer)
    return RequestPrediction(
        prompt_tokens=prompt,
        answer_tokens=answer,
        ttft_s=ttft,
        tpot_s=rest / (answer - 1) if answer > 1 else 0.0,
        total_s=ttft + rest,
        decode_share=rest / (ttft + rest),
    )
