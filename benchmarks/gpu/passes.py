"""Passes of the model at one point, launched one by one or replayed as a CUDA graph, and their times."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from llama import Llama
from plan import Point

from phasewise.mark.clock import Clock
from phasewise.mark.profiled import looped

_STEPS = 8
"""Decode steps between two looks at whether the loop is long enough."""

_SPARE = 0.08
"""Part of the card's memory that stays free of weights and KV cache."""


def eager(model: Llama, point: Point) -> Callable[[], Any]:
    """A pass at ``point``, on a cache of its own that is full of random numbers."""
    if point.phase == "prefill":
        ids, cache = model.ids(point.batch, point.tokens), model.cache(point.batch, point.tokens)
        return lambda: model(ids, cache, 0)
    ids, cache = model.ids(point.batch, 1), model.cache(point.batch, point.tokens + 1)
    # The token that comes out goes in again, as in an engine.
    return lambda: ids.copy_(model(ids, cache, point.tokens).argmax(-1, keepdim=True))


def graphs(step: Callable[[], Any]) -> Callable[[], Any]:
    """``step`` captured once: each call replays it as one launch."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()

    def replay(held: Callable[[], Any] = step) -> None:
        # The graph knows addresses only: what lies there is held by the step.
        graph.replay()

    return replay


def timed(step: Callable[[], Any], point: Point, clock: Clock) -> tuple[float, ...]:
    """Seconds of each pass, start to start, over at least 200 ms."""

    def once() -> list[Any]:
        moments = [clock.now()]
        for _ in range(_STEPS if point.phase == "decode" else 1):
            step()
            moments.append(clock.now())
        return moments

    return looped(once, clock)


def too_large(model: Llama, point: Point) -> str:
    """Why ``point`` does not fit beside the weights; empty when it does."""
    if model.device.type != "cuda":
        return ""
    kv = 2 * 2 * len(model.layers) * point.batch * (point.tokens + 1) * model.layers[0].groups * model.layers[0].size
    free, total = torch.cuda.mem_get_info()
    if kv < free - _SPARE * total:
        return ""
    return f"a KV cache of {kv / 1e9:.0f} GB does not fit in the {free / 1e9:.0f} GB that are free"
