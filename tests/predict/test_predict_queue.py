"""M/D/1: hand arithmetic, and a queue simulated in another way."""

from __future__ import annotations

import heapq
import math
import random

import pytest

from phasewise.predict.queue import mean_wait, waits


def test_by_hand() -> None:
    # Half loaded, the wait is half a service; at 0.8 it is two; an idle queue does not wait.
    assert mean_wait(0.5, 1.0) == pytest.approx(0.5)
    assert mean_wait(8.0, 0.1) == pytest.approx(0.2)
    assert mean_wait(0.0, 1.0) == 0
    assert mean_wait(1.0, 1.0) == math.inf
    assert waits([0.0, 0.5, 3.0, 3.1, 3.2], 1.0) == pytest.approx([0.0, 0.5, 0.0, 0.9, 1.8])
    assert waits([], 1.0) == []


def simulated(rate: float, service: float, many: int, seed: int) -> float:
    """Mean wait by events on a heap: no recursion of the product."""
    rng = random.Random(seed)
    events = []
    at = 0.0
    for number in range(many):
        at += rng.expovariate(rate)
        heapq.heappush(events, (at, 1, number))
    queue: list[float] = []
    busy, total = False, 0.0
    while events:
        now, kind, number = heapq.heappop(events)
        if kind == 1:
            queue.append(now)
        else:
            busy = False
        if not busy and queue:
            total += now - queue.pop(0)
            busy = True
            heapq.heappush(events, (now + service, 0, number))
    return total / many


@pytest.mark.parametrize("load", [0.2, 0.5, 0.8])
def test_the_formula_is_what_a_queue_does(load: float) -> None:
    assert simulated(load / 0.05, 0.05, 200_000, seed=3) == pytest.approx(mean_wait(load / 0.05, 0.05), rel=0.05)


def test_the_recursion_is_what_a_queue_does() -> None:
    rng = random.Random(4)
    arrivals, at = [], 0.0
    for _ in range(2000):
        at += rng.expovariate(12.0)
        arrivals.append(at)
    rng = random.Random(4)
    assert sum(waits(arrivals, 0.05)) / 2000 == pytest.approx(simulated(12.0, 0.05, 2000, seed=4), rel=1e-9)
