"""The loop of many requests, run to the end."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from engines_loopback import stream

from phasewise.engines import address
from phasewise.engines.exchange import Exchange, Order
from phasewise.engines.loop import Loop


def order(key: int = 0, *, max_tokens: int = 100, body: bytes = b"{}", **more: Any) -> Order:
    return Order(key=key, path="/v1/completions", body=body, max_tokens=max_tokens, **more)


def fetch(url: str, *orders: Order, max_tokens: int = 100, within_s: float = 20.0, **options: Any) -> list[Exchange]:
    """What became of ``orders`` (of one, when none is given), by key."""
    loop = Loop(address.parse(url), headers={}, **{"stall_s": 5.0, **options})
    try:
        return run(loop, orders or (order(max_tokens=max_tokens),), within_s)
    finally:
        loop.close()


def run(loop: Loop, orders: Iterable[Order], within_s: float = 20.0) -> list[Exchange]:
    """Send ``orders`` and wait for all of them."""
    for one in orders:
        loop.submit(one)
    until, done = time.perf_counter() + within_s, []
    while loop.in_flight or loop.waiting:
        done += loop.step(until)
        assert time.perf_counter() < until, "the loop did not end"
    done += loop.step(0.0)
    return sorted(done, key=lambda one: one.key)


EVENTS: list[object] = [{"choices": [{"text": " a"}]}] * 3
ANSWER = stream([*EVENTS, {"choices": [], "usage": {"prompt_tokens": 2, "completion_tokens": 3}}])


def well(got: Exchange) -> None:
    assert got.error == ""
    assert (got.completion_tokens, got.arrivals.tokens.tolist()) == (3, [-1] * 3)
    assert got.due <= got.sent_at <= got.headers_at <= got.first_at <= got.last_at <= got.ended_at
