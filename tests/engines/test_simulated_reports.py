"""The faults of clients' reports, each as it shows on the wire; times against the plan by hand."""

from __future__ import annotations

import itertools
import json
import statistics
import threading
import time
from contextlib import contextmanager
from typing import Any

import pytest
from simulated_wire import Reply, Wire

from phasewise.engines.simulated import Plan, SimulatedServer
from phasewise.engines.simulated.physics import Clockwork, Work
from phasewise.engines.simulated.scheduler import Request, Scheduler

pytestmark = pytest.mark.alone

STEP = 2e-3


@contextmanager
def planted(**faults: Any):  # type: ignore[no-untyped-def]
    base: dict[str, Any] = {"prefill_overhead_s": 2e-3, "prefill_per_token_s": 1e-5, "decode_overhead_s": STEP}
    with SimulatedServer(Plan(**base | {"decode_per_request_s": 0.0} | faults)) as server, Wire(server.url) as wire:
        wire.url = server.url  # type: ignore[attr-defined]
        yield wire


def best(wire: Wire, prompt: int, **more: object) -> float:
    return min(wire.complete(prompt, 1, **more).ttft for _ in range(4))


def gaps(reply: Reply) -> list[float]:
    return [later.at - earlier.at for earlier, later in itertools.pairwise(reply.tokens)]


def test_a_kept_connection_pays_the_delayed_ack_and_a_new_one_does_not() -> None:
    with planted(ack_delay_s=0.030) as wire:
        first = wire.complete(10, 3)
        again = wire.complete(10, 3)
        with Wire(wire.url) as fresh:  # type: ignore[attr-defined]
            other = fresh.complete(10, 3)
    assert again.ttft - first.ttft == pytest.approx(0.030, abs=4e-3)
    assert other.ttft == pytest.approx(first.ttft, abs=4e-3)
    assert len(again.tokens) == 3
    # What followed the token that was held up had to wait with it.
    assert sum(gaps(again)) < 2 * STEP


def test_an_answer_is_replayed_after_it_was_made() -> None:
    with planted(replay_s=5e-3) as wire:
        reply = wire.complete(10, 20)
        again = wire.complete(10, 2)
    made = 2.1e-3 + 19 * STEP
    assert made <= reply.ttft <= made + 0.01
    assert statistics.median(gaps(reply)) == pytest.approx(5e-3, abs=5e-4)
    assert reply.usage["completion_tokens"] == len(reply.tokens) == 20  # type: ignore[index]
    assert len(again.tokens) == 2


def test_one_thread_writes_for_all() -> None:
    with planted(write_s=1e-3) as wire:
        alone = min(wire.complete(10, 1).ttft for _ in range(4))
        replies: list[Reply] = []

        def ask() -> None:
            with Wire(wire.url) as one:  # type: ignore[attr-defined]
                replies.append(one.complete(10, 1))

        threads = [threading.Thread(target=ask) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert alone == pytest.approx(2.1e-3 + 1e-3, abs=1e-3)
    # Six heads and six first tokens, a millisecond each, one after the other.
    assert max(reply.ttft for reply in replies) > 1.5 * alone


def test_text_takes_time_before_prefill_and_token_ids_do_not() -> None:
    with planted(tokenizing_per_token_s=50e-6) as wire:
        ids, text = best(wire, 200), best(wire, " ".join(["word"] * 200))
    assert text - ids == pytest.approx(200 * 50e-6, abs=1.5e-3)


@pytest.mark.parametrize(
    ("flag", "options"),
    [
        ("sampling_s", {"top_p": 0.9}),
        ("logprobs_s", {"logprobs": 3}),
        ("guided_s", {"response_format": {"type": "json_object"}}),
    ],
)
def test_an_option_costs_time_where_it_is_used(flag: str, options: dict[str, object]) -> None:
    with planted(**{flag: 3e-3}) as wire:
        plain, dear = wire.complete(10, 12), wire.complete(10, 12, **options)
    assert plain.tpot == pytest.approx(STEP, rel=0.1)
    assert dear.tpot == pytest.approx(STEP + 3e-3, rel=0.1)


COUNTS = [
    ({"count": "chunks", "tokens_per_chunk": 4}, 4),  # 1, 4, 4, 3
    ({"count": "words", "text": "pieces"}, 4),
    ({"count": "retokenised", "text": "spaces"}, 1),
    ({"count": "retokenised"}, 12),
    ({"count": "words"}, 12),
    ({"text": "spaces"}, 12),
]


@pytest.mark.parametrize(("faults", "counted"), COUNTS)
def test_what_usage_counts_instead_of_tokens(faults: dict[str, Any], counted: int) -> None:
    with planted(**faults) as wire:
        reply = wire.complete(10, 12)
    assert reply.usage["completion_tokens"] == counted  # type: ignore[index]
    assert reply.finish == "length"


def test_reasoning_that_is_not_counted() -> None:
    with planted(reasoning=5, count="answer") as wire:
        reply = wire.chat("hello there", 12)
    assert reply.usage["completion_tokens"] == 7  # type: ignore[index]
    assert len(reply.tokens) == 12


def test_a_cached_prompt_is_left_out_of_its_count() -> None:
    with planted(prefix_cache=True, prompt_count="uncached") as wire:
        ids = list(range(1000, 1100))
        first, again = wire.complete(ids, 1), wire.complete(ids, 1)
    assert first.usage["prompt_tokens"] == 100  # type: ignore[index]
    assert again.usage["prompt_tokens"] == 100 - 96  # type: ignore[index]


def test_prompts_are_cut_or_computed_in_part() -> None:
    with planted(cut_tokens=64, prefill_per_token_s=1e-4) as wire:
        reply = wire.complete(500, 1)
        assert reply.usage["prompt_tokens"] == 64  # type: ignore[index]
        assert best(wire, 500) == pytest.approx(2e-3 + 64e-4, abs=2e-3)
    with planted(computed_tokens=64, prefill_per_token_s=1e-4) as wire:
        assert wire.complete(500, 1).usage["prompt_tokens"] == 500  # type: ignore[index]
        assert best(wire, 500) == pytest.approx(2e-3 + 64e-4, abs=2e-3)


def test_the_chat_endpoint_that_stops_anyway() -> None:
    with planted(chat_stops=True, answer_tokens=6) as wire:
        chat = wire.chat("hello", 20, ignore_eos=True, min_tokens=20)
        plain = wire.complete(10, 20, ignore_eos=True)
    assert (chat.finish, len(chat.tokens)) == ("stop", 6)
    assert (plain.finish, len(plain.tokens)) == ("length", 20)


def test_padding_is_counted_and_shows_nothing() -> None:
    with planted(padding_after=5) as wire:
        reply = wire.complete(10, 12)
    assert [bool(event.choice["text"]) for event in reply.tokens] == [True] * 5 + [False] * 7
    assert reply.usage["completion_tokens"] == 12  # type: ignore[index]


def test_own_timings_are_those_of_the_plan() -> None:
    with planted(timings="vllm") as wire:
        metrics = wire.complete(300, 11).events[-2].json["metrics"]
    assert metrics["time_to_first_token_ms"] == pytest.approx(5.0)
    assert metrics["queue_time_ms"] == pytest.approx(0.0, abs=1.0)
    assert metrics["generation_time_ms"] == pytest.approx(10 * 2.0, rel=0.01)
    assert metrics["mean_itl_ms"] == pytest.approx(2.0, rel=0.01)
    with planted(timings="llama.cpp", timed_tokens=100) as wire:
        timings = wire.complete(300, 11).events[-2].json["timings"]
    assert (timings["prompt_n"], timings["predicted_n"]) == (300, 11)
    assert timings["prompt_ms"] == pytest.approx(5.0 / 3)
    assert timings["predicted_ms"] == pytest.approx(20.0, rel=0.01)


# In virtual time: no clock, no wire.


class Silent:
    def prepare(self, tokens: int, last: bool) -> None:
        pass

    def flush(self, due: float) -> None:
        pass


def drafted(plan: Plan, requests: int, prompt: int = 10, answer: int = 400) -> list[list[int]]:
    """Tokens of each decode step of each request."""
    scheduler = Scheduler(plan)
    asked = [
        Request(prompt=(), prompt_tokens=prompt, answer_tokens=answer, arrived=0.0, sink=Silent())
        for _ in range(requests)
    ]
    for request in asked:
        scheduler.submit(request)
    found: dict[int, list[int]] = {id(request): [] for request in asked}
    at = 0.0
    while (step := scheduler.begin(at)) is not None:
        for emission in step.emissions:
            if not step.work.chunks:
                found[id(emission.request)].append(emission.tokens)
        scheduler.finish(step)
        at = step.due
    return list(found.values())


def test_drafts_are_accepted_in_a_row() -> None:
    (steps,) = drafted(Plan(tokens_per_chunk=4, acceptance=0.5), 1, answer=4000)
    # 1 + 1/2 + 1/4 + 1/8
    assert statistics.mean(steps[:-1]) == pytest.approx(1.875, rel=0.05)
    assert set(steps) <= {1, 2, 3, 4}
    (sure,) = drafted(Plan(tokens_per_chunk=4), 1)
    assert set(sure[:-1]) == {4}


def test_drafts_fade_with_the_context_and_stop_with_the_batch() -> None:
    plan = Plan(tokens_per_chunk=4, draft_context=1000)
    (near,), (far,) = drafted(plan, 1, prompt=10), drafted(plan, 1, prompt=900)
    assert statistics.mean(near) > 1.5 * statistics.mean(far)
    (beyond,) = drafted(plan, 1, prompt=2000)
    assert set(beyond) == {1}
    few = Plan(tokens_per_chunk=4, draft_batch=2)
    assert all(set(steps[:-1]) == {4} for steps in drafted(few, 2))
    assert all(set(steps) == {1} for steps in drafted(few, 3))


def test_a_shape_pays_for_its_first_steps() -> None:
    plan = Plan(decode_overhead_s=1.0, decode_per_request_s=0.0, warmup_cost_s=0.5, warmup_steps=3)
    clockwork = Clockwork(plan)
    seconds = [clockwork.duration(Work(chunks=(), batch=1, context=0), at) for at in (0.0, 2.0, 4.0, 6.0)]
    assert seconds == pytest.approx([1.5, 1.5, 1.5, 1.0])


def test_a_client_that_leaves_does_not_keep_a_slow_writer() -> None:
    body = json.dumps({"prompt": [5] * 10, "max_tokens": 50, "stream": True}).encode()
    with planted(write_s=5e-3, max_batch=1) as wire:
        with Wire(wire.url) as gone:  # type: ignore[attr-defined]
            head = f"POST /v1/completions HTTP/1.1\r\nhost: test\r\ncontent-length: {len(body)}\r\n\r\n"
            gone.socket.sendall(head.encode() + body)
            assert gone.socket.recv(1)
        began = time.perf_counter()
        assert len(wire.complete(10, 2).tokens) == 2
        assert time.perf_counter() - began < 5.0
