"""The engine in virtual time: hand arithmetic and conservation, no clock and no wire."""

from __future__ import annotations

import itertools
import random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasewise.engines.simulated.physics import Clockwork, Work, planted
from phasewise.engines.simulated.plan import OtherLoad, Plan
from phasewise.engines.simulated.scheduler import Request, Scheduler, Step


class Tally:
    """A sink that counts."""

    def __init__(self) -> None:
        self.tokens = self.events = 0
        self.done_at: float | None = None

    def prepare(self, tokens: int, last: bool) -> None:
        self.tokens += tokens
        self.events += 1
        self.last = last

    def flush(self, due: float) -> None:
        self.done_at = due


def request(prompt: int, answer: int, arrived: float = 0.0) -> Request:
    ids = [random.randrange(100_000) for _ in range(prompt)]
    return Request(prompt=ids, prompt_tokens=prompt, answer_tokens=answer, arrived=arrived, sink=Tally())


def drain(scheduler: Scheduler, at: float = 0.0, most: int = 100_000) -> list[Step]:
    steps = []
    while len(steps) < most and (step := scheduler.begin(at)) is not None:
        for emission in step.emissions:
            emission.request.sink.prepare(emission.tokens, emission.last)
            emission.request.sink.flush(step.due)
        scheduler.finish(step)
        steps.append(step)
        at = step.due
    return steps


EXACT = Plan(
    prefill_overhead_s=0.004,
    prefill_per_token_s=1e-4,
    prefill_per_token2_s=1e-7,
    decode_overhead_s=0.01,
    decode_per_request_s=0.001,
    decode_per_context_token_s=1e-5,
)


def test_one_request_by_hand() -> None:
    scheduler = Scheduler(EXACT)
    scheduler.submit(request(100, 3))
    durations = [step.due - step.start for step in drain(scheduler)]
    # 4 ms + 100 x 0.1 ms + 10,000 x 0.1 us; then 10 ms + 1 ms + 10 us per token of context: 101, then 102.
    assert durations == pytest.approx([0.015, 0.01201, 0.01202])


def test_batch_of_four_decodes_together() -> None:
    scheduler = Scheduler(EXACT)
    for prompt in (10, 20, 30, 40):
        scheduler.submit(request(prompt, 2))
    prefill, decode = drain(scheduler)
    assert prefill.due - prefill.start == pytest.approx(0.004 + 100e-4 + (100 + 400 + 900 + 1600) * 1e-7)
    assert decode.due - decode.start == pytest.approx(0.01 + 4 * 0.001 + (11 + 21 + 31 + 41) * 1e-5)


def test_a_mixed_step_is_its_decode_part_plus_its_chunk() -> None:
    scheduler = Scheduler(
        Plan(**{name: getattr(EXACT, name) for name in EXACT.__struct_fields__} | {"chunk_tokens": 64})
    )
    scheduler.submit(request(10, 100))
    at = drain(scheduler, most=3)[-1].due
    scheduler.submit(request(100, 2))
    first, second, both = drain(scheduler, at, most=3)
    decode = 0.01 + 0.001
    assert first.due - first.start == pytest.approx(decode + 13e-5 + 0.004 + 64e-4 + 64**2 * 1e-7)
    assert second.due - second.start == pytest.approx(decode + 14e-5 + 0.004 + 36e-4 + (100**2 - 64**2) * 1e-7)
    assert both.work == Work(chunks=(), batch=2, context=15 + 101)


def test_without_chunking_running_answers_wait_for_a_prefill() -> None:
    scheduler = Scheduler(EXACT)
    scheduler.submit(request(10, 100))
    at = drain(scheduler, most=3)[-1].due
    scheduler.submit(request(100, 2))
    assert [step.work.batch for step in drain(scheduler, at, most=3)] == [0, 2, 1]


@given(
    requests=st.lists(st.tuples(st.integers(1, 300), st.integers(1, 40)), min_size=1, max_size=12),
    chunk=st.none() | st.integers(1, 128),
    batch=st.integers(1, 5),
    per_chunk=st.integers(1, 4),
    cache=st.booleans(),
)
def test_every_token_is_computed_and_given_once(
    requests: list[tuple[int, int]], chunk: int | None, batch: int, per_chunk: int, cache: bool
) -> None:
    plan = Plan(chunk_tokens=chunk, max_batch=batch, tokens_per_chunk=per_chunk, prefix_cache=cache)
    scheduler = Scheduler(plan)
    mine = [request(prompt, answer) for prompt, answer in requests]
    for one in mine:
        scheduler.submit(one)
    steps = drain(scheduler)
    assert not scheduler.running
    assert not scheduler.waiting
    assert [one.sink.tokens for one in mine] == [answer for _, answer in requests]
    computed = sum(end - start for step in steps for start, end in step.work.chunks)
    assert computed == sum(prompt for prompt, _ in requests) - scheduler.counters.cache_hits
    assert scheduler.counters.prompt_tokens == sum(prompt for prompt, _ in requests)
    assert scheduler.counters.generation_tokens == sum(answer for _, answer in requests)
    assert all(len(step.work.chunks) + step.work.batch <= batch for step in steps)
    assert all(later.start == earlier.due for earlier, later in itertools.pairwise(steps))
    if chunk is not None:
        assert all(sum(end - start for start, end in step.work.chunks) <= chunk for step in steps)


@given(tokens=st.integers(1, 5000), chunk=st.integers(1, 700))
def test_chunks_add_up_to_the_whole(tokens: int, chunk: int) -> None:
    ends = [*range(chunk, tokens, chunk), tokens]
    parts = sum(planted(EXACT, Work(((start, end),), 0, 0)) for start, end in zip([0, *ends], ends, strict=False))
    whole = planted(EXACT, Work(((0, tokens),), 0, 0))
    assert parts - (len(ends) - 1) * EXACT.prefill_overhead_s == pytest.approx(whole)


@pytest.mark.parametrize(("tokens", "hit"), [(64, 48), (65, 64), (16, 0), (17, 16), (100, 96)])
def test_prefix_cache_gives_whole_blocks_but_never_the_last_token(tokens: int, hit: int) -> None:
    scheduler = Scheduler(Plan(prefix_cache=True, block_tokens=16))
    first = request(tokens, 1)
    again = Request(prompt=first.prompt, prompt_tokens=tokens, answer_tokens=1, arrived=0.0, sink=Tally())
    scheduler.submit(first)
    drain(scheduler)
    scheduler.submit(again)
    (step,) = drain(scheduler, 10.0)
    assert (first.cached, again.cached) == (0, hit)
    assert step.work.chunks == ((hit, tokens),)
    assert (scheduler.counters.cache_queries, scheduler.counters.cache_hits) == (2 * tokens, hit)


def test_another_prompt_shares_only_its_common_prefix() -> None:
    scheduler = Scheduler(Plan(prefix_cache=True, block_tokens=16))
    scheduler.submit(first := request(64, 1))
    drain(scheduler)
    mixed = [*first.prompt[:40], *range(24)]
    scheduler.submit(other := Request(prompt=mixed, prompt_tokens=64, answer_tokens=1, arrived=0.0, sink=Tally()))
    drain(scheduler, 10.0)
    assert other.cached == 32


def test_a_cancelled_request_leaves_the_batch() -> None:
    scheduler = Scheduler(EXACT)
    mine = [request(10, 50), request(10, 50), request(10, 50)]
    for one in mine:
        scheduler.submit(one)
    at = drain(scheduler, most=2)[-1].due
    scheduler.cancel(mine[1])
    scheduler.cancel(mine[1])
    assert drain(scheduler, at, most=1)[0].work.batch == 2


def test_the_other_client_is_a_poisson_process() -> None:
    scheduler = Scheduler(Plan(other_load=OtherLoad(50.0, 7, 3), prefill_overhead_s=0.0, decode_overhead_s=1e-4))
    assert scheduler.begin(0.0) is None  # nobody has come at the very start
    at, seen = 0.0, []
    while len(seen) < 2000:
        arrival = scheduler.next_arrival()
        assert arrival is not None
        seen.append(arrival)
        at = drain(scheduler, max(at, arrival))[-1].due
    total = scheduler.counters.prompt_tokens / 7
    assert total / at == pytest.approx(50, rel=0.1)
    assert scheduler.counters.generation_tokens == 3 * total


DECODE = Work((), 1, 100)


def test_drift_grows_by_the_minute() -> None:
    clockwork = Clockwork(Plan(clock_drift=0.1, idle_penalty_s=0.0))
    at_start, after_two_minutes = clockwork.duration(DECODE, 1000.0), clockwork.duration(DECODE, 1120.0)
    assert after_two_minutes / at_start == pytest.approx(1.2)


def test_jitter_is_seeded_and_unbiased() -> None:
    def draw(seed: int) -> list[float]:
        clockwork = Clockwork(Plan(jitter=0.05, seed=seed))
        return [clockwork.duration(DECODE, 0.0) for _ in range(4000)]

    assert draw(1) == draw(1)
    assert draw(1) != draw(2)
    mean = sum(draw(1)) / 4000
    assert mean == pytest.approx(planted(Plan(), DECODE), rel=0.005)


def test_each_shape_pays_once_for_its_compilation_and_an_idle_engine_for_waking() -> None:
    clockwork = Clockwork(Plan(warmup_cost_s=1.0, idle_penalty_s=0.25))
    base = planted(Plan(), DECODE)
    after = 1.0 + base + 2 * Plan().idle_after_s
    assert clockwork.duration(DECODE, 0.0) == pytest.approx(base + 1.0)
    assert clockwork.duration(DECODE, 1.0 + base) == pytest.approx(base)
    assert clockwork.duration(Work((), 2, 100), 1.0 + 2 * base) == pytest.approx(base + 1e-4 + 1.0)
    assert clockwork.duration(DECODE, after + 1.0 + 2 * base) == pytest.approx(base + 0.25)


def test_beyond_the_largest_graph_a_step_takes_longer_by_hand() -> None:
    plan = msgspec.structs.replace(EXACT, graph_batch=2, eager_step_s=0.5)
    assert planted(plan, Work(chunks=(), batch=2, context=10)) == pytest.approx(0.01 + 0.002 + 1e-4)
    assert planted(plan, Work(chunks=(), batch=3, context=10)) == pytest.approx(0.01 + 0.003 + 1e-4 + 0.5)


def test_preemption_by_hand() -> None:
    # 20 tokens: both prompts of 8 fit with their next token (18), and with the one after (20); then the later one goes.
    scheduler = Scheduler(msgspec.structs.replace(EXACT, kv_tokens=20))
    first, second = request(8, 6), request(8, 6)
    scheduler.submit(first)
    scheduler.submit(second)
    steps = drain(scheduler)
    assert [(len(step.work.chunks), step.work.batch) for step in steps[:3]] == [(2, 0), (0, 2), (0, 1)]
    again = next(step for step in steps[1:] if step.work.chunks)
    assert again.work.chunks == ((0, 10),)  # its prompt and the two tokens it had
    assert (first.sink.tokens, second.sink.tokens) == (6, 6)
    assert scheduler.counters.prompt_tokens == 16
    assert scheduler.counters.generation_tokens == 12
