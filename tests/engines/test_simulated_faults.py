"""Each planted fault shows on the wire, and only where it is planted."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

import pytest
from simulated_wire import Wire

from phasewise.engines.simulated import OtherLoad, Plan, SimulatedServer

pytestmark = pytest.mark.alone


@contextmanager
def planted(**faults: Any):  # type: ignore[no-untyped-def]
    base: dict[str, Any] = {"prefill_overhead_s": 2e-3, "prefill_per_token_s": 1e-5, "decode_overhead_s": 2e-3}
    with SimulatedServer(Plan(**base | faults)) as server, Wire(server.url) as wire:
        yield wire


def cached(wire: Wire) -> int:
    return wire.complete(300, 1).usage["prompt_tokens_details"]["cached_tokens"]  # type: ignore[index,no-any-return]


def test_a_clean_plan_shows_none_of_them() -> None:
    with planted() as wire:
        reply = wire.complete(300, 20)
        assert cached(wire) == 0
    assert reply.status == 200
    assert reply.usage["completion_tokens"] == len(reply.tokens) == 20  # type: ignore[index]
    assert all(event.choice["text"] for event in reply.tokens)
    assert reply.finish == "length"
    gaps = [later.at - earlier.at for earlier, later in itertools.pairwise(reply.tokens)]
    assert statistics.median(gaps) == pytest.approx(2e-3 + 1e-4, rel=0.05)


def test_canned_prefix() -> None:
    with planted(canned_prefix=200, prefill_per_token_s=1e-3) as wire:
        assert cached(wire) == 200
        assert min(wire.complete(300, 1).ttft for _ in range(3)) == pytest.approx(0.102, abs=2e-3)
        assert wire.complete(50, 1).usage["prompt_tokens_details"]["cached_tokens"] == 49


def test_canned_prefix_that_is_not_told() -> None:
    with planted(canned_prefix=200, cached_count=False) as wire:
        assert "prompt_tokens_details" not in wire.complete(300, 1).usage


def test_tokens_per_chunk() -> None:
    with planted(tokens_per_chunk=4) as wire, planted() as plain:
        reply = wire.complete(10, 22, return_token_ids=True)
        # A step takes what it takes, on this machine now: four tokens of it or one.
        steps = [(wire.complete(10, 81).tpot, plain.complete(10, 21).tpot) for _ in range(5)]
    assert [len(event.choice["token_ids"]) for event in reply.tokens] == [1, 4, 4, 4, 4, 4, 1]
    assert reply.usage["completion_tokens"] == 22
    assert statistics.median(four / one for four, one in steps) == pytest.approx(1.0, rel=0.3)


def test_buffer() -> None:
    with planted(buffer=2000) as wire:
        reply = wire.complete(10, 40)
        short = wire.complete(10, 1)
    assert len(reply.tokens) == 40
    assert len(set(reply.reads)) < 12
    assert all(reply.headers)
    assert short.reads[0] == pytest.approx(short.tokens[0].at)


def test_no_stream() -> None:
    with planted(stream=False) as wire:
        reply = wire.complete(10, 40)
        chat = wire.chat("a b", 3)
    assert len(reply.tokens) == 1
    assert len(reply.tokens[0].choice["text"].split()) == 40
    assert reply.usage["completion_tokens"] == 40
    assert reply.ttft > 39 * 2e-3
    assert chat.tokens[0].choice["delta"] == {"content": " the model reads", "role": "assistant"}


def test_early_end() -> None:
    with planted(early_end=7) as wire:
        reply = wire.complete(10, 40, min_tokens=40)
        one = wire.complete(10, 1)
    assert (reply.usage["completion_tokens"], len(reply.tokens), reply.finish) == (7, 7, "stop")
    assert one.finish == "length"


def test_no_usage_and_wrong_usage() -> None:
    with planted(usage=False) as wire:
        assert (
            wire.complete(10, 3, stream_options={"include_usage": True, "continuous_usage_stats": True}).usage is None
        )
        assert "usage" not in wire.post("/v1/completions", {"prompt": "a", "max_tokens": 2}).json
    with planted(wrong_usage=-3) as wire:
        assert wire.complete(10, 10).usage["completion_tokens"] == 7


def test_role_chunk_comes_before_prefill() -> None:
    with planted(role_chunk=True, prefill_overhead_s=0.05) as wire:
        reply = wire.chat("a b c", 3)
    assert reply.tokens[0].choice["delta"] == {"role": "assistant", "content": ""}
    assert reply.ttft < 0.025
    assert reply.tokens[1].at - reply.sent_at == pytest.approx(0.05, abs=5e-3)
    assert reply.usage["completion_tokens"] == 3


@pytest.mark.parametrize("form", ["empty", "withheld"])
def test_partial_utf8(form: str) -> None:
    with planted(partial_utf8=form) as wire:
        reply = wire.complete(10, 12)
    texts = [event.choice["text"] for event in reply.tokens]
    assert texts == (["", "", " \N{GRINNING FACE}"] * 4 if form == "empty" else [" \N{GRINNING FACE}"] * 4)
    assert reply.usage["completion_tokens"] == 12


def test_reasoning() -> None:
    with planted(reasoning=3) as wire:
        deltas = [event.choice["delta"] for event in wire.chat("a b", 5).tokens]
        body = {"messages": [{"role": "user", "content": "a"}], "max_tokens": 5}
        message = wire.post("/v1/chat/completions", body).json["choices"][0]["message"]
    assert ["reasoning_content" in delta for delta in deltas] == [True, True, True, False, False]
    assert message["reasoning_content"] == "the model reads"
    assert message["content"] == "its weights"


def test_other_load_slows_decode_and_shows_in_metrics() -> None:
    with planted(other_load=OtherLoad(200.0, 100, 5), seed=3) as wire:
        reply = wire.complete(10, 100)
        metrics = wire.get("/metrics").body.decode()
    assert reply.tpot > 1.5 * 2.1e-3
    total = next(line for line in metrics.splitlines() if line.startswith("vllm:prompt_tokens_total{"))
    assert float(total.split()[-1]) > 10 + 500


def test_no_metrics() -> None:
    with planted(metrics=False) as wire:
        assert wire.get("/metrics").status == 404


def test_clock_drift_and_idling() -> None:
    with planted(clock_drift=60.0) as wire:  # a step takes 60 times as long after a minute: twice after a second
        first = wire.complete(10, 10).tpot
        time.sleep(1.0)
        assert wire.complete(10, 10).tpot > 1.6 * first
    with planted(idle_penalty_s=0.05) as wire:
        wire.complete(10, 1)
        busy = wire.complete(10, 1).ttft
        time.sleep(0.6)
        assert wire.complete(10, 1).ttft - busy > 0.04


def test_warmup_cost() -> None:
    with planted(warmup_cost_s=0.05) as wire:
        cold, warm, other = (wire.complete(tokens, 1).ttft for tokens in (40, 40, 41))
    assert min(cold, other) > 0.05
    assert warm < 0.03


def test_jitter() -> None:
    with planted(jitter=0.3) as wire:
        times = [event.at for event in wire.complete(10, 200).tokens]
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert statistics.stdev(gaps) / statistics.mean(gaps) > 0.15


def test_error_rate_and_status() -> None:
    with planted(error_rate=0.5) as wire:
        statuses = [wire.complete(1, 1).status for _ in range(40)]
        assert 8 < statuses.count(500) < 32
        assert set(statuses) == {200, 500}
    with planted(status=503) as wire:
        assert wire.get("/v1/models").status == 200
        assert wire.complete(1, 1).json["error"]["code"] == 503


@pytest.mark.parametrize("after", [0, 1, 5])
def test_drop_after(after: int) -> None:
    with planted(drop_after=after) as wire:
        reply = wire.complete(10, 40)
    assert reply.closed
    assert len(reply.tokens) == after
    assert reply.usage is None


@pytest.mark.parametrize("after", [0, 5])
def test_stall_after(after: int) -> None:
    with planted(stall_after=after) as wire:
        wire.socket.settimeout(0.5)
        with pytest.raises(TimeoutError):
            wire.complete(10, 40)
        with Wire(f"http://127.0.0.1:{wire.socket.getpeername()[1]}") as other:
            line = next(row for row in other.get("/metrics").body.decode().splitlines() if "running{" in row)
    assert line.endswith(" 0.0")


def test_invalid_sse() -> None:
    with planted(invalid_sse=True) as wire, pytest.raises(ValueError):
        _ = wire.complete(10, 3).tokens


@pytest.mark.parametrize("call", [lambda wire: wire.get("/v1/models"), lambda wire: wire.complete(3, 1)])
def test_html(call: Callable[[Wire], Any]) -> None:
    with planted(html=True) as wire:
        reply = call(wire)
    assert reply.status == 200
    assert reply.headers["content-type"].startswith("text/html")
    assert reply.body.startswith(b"<!doctype html>")
