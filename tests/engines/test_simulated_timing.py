"""The planted timings, seen by an independent client on another process's clock."""

from __future__ import annotations

import functools
import itertools
import json
import statistics
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from simulated_wire import Reply, Wire

from phasewise.engines.simulated import Plan, SimulatedServer

pytestmark = pytest.mark.alone

PLANS = [
    Plan(prefill_overhead_s=0.2e-3, prefill_per_token_s=2e-6, decode_overhead_s=1e-3, decode_per_request_s=0.0),
    Plan(prefill_overhead_s=3e-3, prefill_per_token_s=17e-6, prefill_per_token2_s=5e-9, decode_overhead_s=5.5e-3),
    Plan(prefill_overhead_s=30e-3, prefill_per_token_s=900e-6, prefill_per_token2_s=2e-7, decode_overhead_s=25e-3),
]


def prefill_s(plan: Plan, tokens: int) -> float:
    return plan.prefill_overhead_s + plan.prefill_per_token_s * tokens + plan.prefill_per_token2_s * tokens**2


def decode_s(plan: Plan, batch: int, context: float) -> float:
    per_token = plan.decode_per_context_token_s
    return plan.decode_overhead_s + plan.decode_per_request_s * batch + per_token * context


def fastest(sample: Callable[[], float], *, least: float, most: float) -> bool:
    """Whether samples reach ``most`` and never fall below ``least``: noise of a busy machine only delays."""
    for _ in range(40):
        seen = sample()
        assert seen >= least
        if seen <= most:
            return True
    return False


def tpot(wire: Wire, prompt: int, answer: int) -> float:
    """From the earliest first token to the earliest last token of nine answers."""
    replies = [wire.complete(prompt, answer) for _ in range(9)]
    first = min(reply.tokens[0].at - reply.sent_at for reply in replies)
    return (min(reply.tokens[-1].at - reply.sent_at for reply in replies) - first) / (answer - 1)


@pytest.mark.parametrize("plan", PLANS, ids=["fast", "middle", "slow"])
def test_ttft_and_tpot_are_the_planted_ones(plan: Plan) -> None:
    with SimulatedServer(plan) as server, Wire(server.url) as wire:
        wire.complete(8, 2)
        for tokens in (16, 256, 512):
            want = prefill_s(plan, tokens)
            ask = functools.partial(wire.complete, tokens, 1)
            assert fastest(lambda ask=ask: ask().ttft, least=want - 20e-6, most=want * 1.005 + 0.2e-3)
        answer = max(16, min(200, int(0.3 / plan.decode_overhead_s)))
        assert tpot(wire, 32, answer) == pytest.approx(decode_s(plan, 1, 32 + answer / 2), rel=0.005)


def test_tpot_grows_with_context_as_planted() -> None:
    plan = Plan(prefill_per_token_s=1e-6, decode_overhead_s=2e-3, decode_per_context_token_s=5e-7)
    with SimulatedServer(plan) as server, Wire(server.url) as wire:
        for prompt in (10, 8000):
            assert tpot(wire, prompt, 60) == pytest.approx(decode_s(plan, 1, prompt + 30), rel=0.005)


def test_four_streams_share_steps() -> None:
    plan = Plan(
        prefill_overhead_s=0.02, prefill_per_token_s=1e-5, decode_overhead_s=3e-3, decode_per_request_s=4e-4,
        decode_per_context_token_s=1e-6,
    )  # fmt: skip
    replies: list[Reply] = []
    with SimulatedServer(plan) as server:

        def ask(prompt: int) -> None:
            with Wire(server.url) as wire:
                replies.append(wire.complete(prompt, 120))

        clients = [threading.Thread(target=ask, args=(prompt,)) for prompt in (50, 100, 150, 200)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
    # The steps in which all four decode: from the last first token to the first last token.
    begin = max(reply.tokens[0].at for reply in replies) + 5e-3
    end = min(reply.tokens[-1].at for reply in replies) - 5e-3
    for reply in replies:
        inside = [(index, event.at) for index, event in enumerate(reply.tokens) if begin < event.at < end]
        (first, start), (last, stop) = inside[0], inside[-1]
        assert last - first > 80
        context = 50 + 100 + 150 + 200 + 4 * 60
        assert (stop - start) / (last - first) == pytest.approx(decode_s(plan, 4, context), rel=0.01)


def test_a_long_body_costs_no_time_beyond_its_prefill() -> None:
    plan = Plan(prefill_overhead_s=1e-3, prefill_per_token_s=2e-6, max_context=200_000)
    want = prefill_s(plan, 100_000)
    with SimulatedServer(plan) as server, Wire(server.url) as wire:
        for prompt in (list(range(100_000)), " ".join(["word"] * 100_000)):
            ask = functools.partial(wire.complete, prompt, 1)
            assert fastest(lambda ask=ask: ask().ttft, least=want, most=want * 1.005 + 0.2e-3)


@pytest.mark.parametrize(("chunk", "worst"), [(None, 0.1 + 5.2e-3), (100, 0.01 + 5.1e-3)])
def test_a_running_answer_feels_another_prefill(tmp_path: Path, chunk: int | None, worst: float) -> None:
    """Alone, a pass of 100 ms stands between two tokens; in chunks of 100 tokens, each step grows by 10 ms."""
    log = tmp_path / "truth.jsonl"
    plan = Plan(
        chunk_tokens=chunk,
        prefill_overhead_s=0.0,
        prefill_per_token_s=1e-4,
        decode_overhead_s=5e-3,
        decode_per_context_token_s=0.0,
    )
    with SimulatedServer(plan, log=log) as server, Wire(server.url) as wire, Wire(server.url) as other:
        stream = threading.Thread(target=wire.complete, args=(10, 60))
        stream.start()
        time.sleep(0.05)
        other.complete(1000, 1)
        stream.join()
    running = next(record for record in map(json.loads, log.read_text().splitlines()) if record["answer_tokens"] == 60)
    due = [step["due"] for step in running["steps"]]
    assert max(later - earlier for earlier, later in itertools.pairwise(due)) == pytest.approx(worst, abs=0.2e-3)


def test_the_log_tells_when_each_token_was_written(tmp_path: Path) -> None:
    log = tmp_path / "truth.jsonl"
    plan = Plan(prefill_overhead_s=2e-3, decode_overhead_s=2e-3)
    with SimulatedServer(plan, log=log) as server, Wire(server.url) as wire:
        replies = [wire.complete(20, 30) for _ in range(3)]
    records = [json.loads(line) for line in log.read_text().splitlines()]
    assert len(records) == 3
    for reply, record in zip(replies, records, strict=True):
        assert (record["prompt_tokens"], record["cached_tokens"], record["answer_tokens"]) == (20, 0, 30)
        assert record["prefill_start"] == record["received_at"]
        assert sum(step["tokens"] for step in record["steps"]) == 30
        assert record["steps"][0]["due"] - record["prefill_start"] == pytest.approx(prefill_s(plan, 20))
        # One clock for both processes: nothing is received before it was written.
        assert reply.sent_at < record["received_at"]
        assert all(
            step["due"] <= step["written_at"] < event.at + 50e-6
            for step, event in zip(record["steps"], reply.tokens, strict=True)
        )
    late = [step["written_at"] - step["due"] for record in records for step in record["steps"]]
    assert statistics.median(late) < 50e-6
