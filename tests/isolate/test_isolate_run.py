"""Runs against an engine on a clock of its own: what the budget buys, and what is left when a run is cut short."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from isolate_fake import Fake
from ledger_kept import Kept

from phasewise.errors import BrokenStream, Refused, Stalled, Unreachable, UsageError
from phasewise.isolate.run import Isolation
from phasewise.isolate.session import Progress
from phasewise.record.observation import Check, Observation
from phasewise.record.quantity import Quantity


def run(fake: Fake, **options: object) -> Observation:
    return Isolation(fake, clock=fake.clock, **options).run()  # type: ignore[arg-type]


def covers(quantity: Quantity, truth: float) -> bool:
    return quantity.low is not None and quantity.high is not None and quantity.low <= truth <= quantity.high


def failed(observation: Observation) -> list[Check]:
    return [check for check in observation.checks if check.status == "failed"]


# Slow: a small model on two CPU cores. Fast: an 8B model on a GPU.
SLOW_CPU = {"overhead": 20e-3, "per_token": 3.4e-3, "per_token2": 1.5e-7, "step": 7.6e-3, "per_context": 1.5e-6}
FAST_GPU = {"overhead": 8e-3, "per_token": 20e-6, "per_token2": 4e-10, "step": 5.6e-3, "per_context": 45e-9}


def test_a_fast_server_is_done_in_seconds_and_found_as_planted() -> None:
    fake = Fake(**FAST_GPU)  # type: ignore[arg-type]
    seen = run(fake)
    assert fake.now - fake.began < 45
    assert seen.prefill is not None
    assert seen.prefill.fit is not None
    assert len(seen.prefill.points) == 8
    assert min(point.samples for point in seen.prefill.points) >= 5
    fit = seen.prefill.fit
    assert fit.per_token.value == pytest.approx(20e-6, rel=0.01)
    assert fit.overhead.value == pytest.approx(8e-3, abs=0.5e-3)
    assert covers(fit.per_token, 20e-6)
    assert covers(fit.overhead, 8e-3)
    assert covers(fit.per_token2, 4e-10)
    assert fit.residual < 0.01
    assert seen.decode is not None
    assert seen.decode.tpot.value == pytest.approx(fake.tpot(seen.decode.tpot_context), rel=0.01)
    assert covers(seen.decode.tpot, fake.tpot(seen.decode.tpot_context))
    assert seen.decode.fit is not None
    assert covers(seen.decode.fit.at_zero, 5.6e-3)
    assert covers(seen.decode.fit.per_context_token, 45e-9)
    assert max(point.context for point in seen.decode.points) > 4000
    # The engine is not ours, takes no requests beside the profile and tells no times of its own.
    beside = {"connection", "idle", "queue", "prefix_cache", "timings_agree"}
    assert {check.name for check in seen.checks if check.status != "passed"} == {"quiet", *beside}
    assert seen.requests == len(fake.asked)
    assert seen.prompt_tokens == fake.tokens_in
    assert seen.output_tokens == fake.tokens_out
    assert len(set(fake.payloads)) == len(fake.payloads)


def test_a_slow_engine_gets_what_the_default_budget_holds() -> None:
    fake = Fake(**SLOW_CPU, noise=0.03)  # type: ignore[arg-type]
    seen = run(fake)
    assert fake.now - fake.began <= 90
    assert seen.prefill is not None
    assert seen.decode is not None
    assert seen.prefill.fit is not None
    assert len(seen.prefill.points) >= 4
    assert min(point.samples for point in seen.prefill.points) >= 2
    assert max(point.tokens for point in seen.prefill.points) >= 1024
    assert covers(seen.prefill.fit.per_token, 3.4e-3)
    assert len({point.prompt_tokens for point in seen.decode.points}) >= 2
    assert seen.decode.tpot.value == pytest.approx(fake.tpot(seen.decode.tpot_context), rel=0.02)
    assert not failed(seen)


@pytest.mark.parametrize("budget", [1.0, 5.0, 20.0])
def test_the_budget_is_kept(budget: float) -> None:
    fake = Fake(**SLOW_CPU)  # type: ignore[arg-type]
    seen = run(fake, budget_s=budget)
    assert fake.now - fake.began <= 1.1 * budget
    assert seen.prefill is not None
    assert seen.decode is not None
    assert "the time budget was spent" in seen.stopped


@pytest.mark.parametrize("slowed", [3, 6, 10])
@pytest.mark.parametrize("speed", [SLOW_CPU, FAST_GPU])
def test_first_requests_that_were_held_up_do_not_decide_the_lengths(speed: dict[str, float], slowed: int) -> None:
    quiet = run(Fake(**speed), phases=("prefill",))  # type: ignore[arg-type]
    fake = Fake(**speed, held_up=lambda number: 40.0 if number <= slowed else 1.0)  # type: ignore[arg-type]
    seen = run(fake, phases=("prefill",))
    assert quiet.prefill is not None
    assert seen.prefill is not None
    assert len(seen.prefill.points) >= 4
    assert seen.prefill.points[-1].tokens >= quiet.prefill.points[-1].tokens / 4
    assert fake.now - fake.began <= 1.1 * 90


@pytest.mark.parametrize("per_token", [0.1, 0.3, 1.0])
def test_two_lengths_are_tried_whatever_they_cost(per_token: float) -> None:
    fake = Fake(per_token=per_token)
    run(fake, phases=("prefill",))
    assert len({prompt for prompt, _ in fake.asked}) >= 2
    # The rest is not spent on the shortest alone.
    assert fake.now - fake.began <= 1.1 * 90


@pytest.mark.parametrize("budget", [10.0, 30.0, 90.0])
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("speed", [SLOW_CPU, FAST_GPU])
def test_the_budget_is_kept_on_a_busy_machine(speed: dict[str, float], seed: int, budget: float) -> None:
    noise = random.Random(seed)
    fake = Fake(**speed, held_up=lambda number: noise.choice([1.0, 1.0, 1.5, 2.0, 3.0]))  # type: ignore[arg-type]
    seen = run(fake, budget_s=budget)
    assert fake.now - fake.began <= 1.1 * budget
    assert seen.prefill is not None
    assert len(seen.prefill.points) >= 3
    assert seen.decode is not None
    times = [*(point.ttft for point in seen.prefill.points), *(point.tpot for point in seen.decode.points)]
    assert all(time.high is None or time.high < 10 * time.value for time in times)


def test_a_refused_length_is_offered_once() -> None:
    fake = Fake(max_context=None, refuse_over=1000)
    offered: list[int] = []
    prompt = fake.prompt
    fake.prompt = lambda tokens: offered.append(tokens) or prompt(tokens)  # type: ignore[method-assign, func-returns-value]
    run(fake)
    assert sum(tokens > 1000 for tokens in offered) == 1


def broken() -> BrokenStream:
    return BrokenStream("The stream ended early.")


@pytest.mark.parametrize("numbers", [(1,), (2, 3), (4, 20, 21), (5, 60), (67, 68)])
def test_a_few_failures_do_not_end_the_run(numbers: tuple[int, ...]) -> None:
    fake = Fake(failures={n: Refused("HTTP 500: overloaded.", status=500) if n % 2 else broken() for n in numbers})
    seen = run(fake)
    assert fake.attempts == seen.requests + len(numbers)
    assert seen.prefill is not None
    assert len(seen.prefill.points) == 8
    assert seen.decode is not None
    (told,) = failed(seen)
    assert (told.name, told.phase, told.voids) == ("errors", "run", False)
    assert told.detail.startswith(f"{len(numbers)} of {fake.attempts} requests failed")
    assert ("overloaded" if numbers[-1] % 2 else "ended early") in told.detail


@pytest.mark.parametrize("numbers", [(7, 8, 9), (4, 20, 30, 40), (1, 2, 3)])
def test_more_failures_do(numbers: tuple[int, ...]) -> None:
    fake = Fake(failures={n: broken() for n in numbers})
    isolation = Isolation(fake, clock=fake.clock)
    with pytest.raises(BrokenStream):
        isolation.run()
    assert fake.attempts == numbers[-1]
    assert isolation.observation().requests == numbers[-1] - len(numbers)


@pytest.mark.parametrize("error", [*(Refused("No.", status=n) for n in (401, 403, 404, 429)), Unreachable(), Stalled()])
def test_failures_that_do_not_pass_end_it_at_once(error: Exception) -> None:
    fake = Fake(failures={20: error})
    isolation = Isolation(fake, clock=fake.clock)
    with pytest.raises(type(error)):
        isolation.run()
    assert fake.attempts == 20
    assert isolation.observation().requests == 19


def test_lengths_are_interleaved() -> None:
    fake = Fake(**FAST_GPU)  # type: ignore[arg-type]
    run(fake, phases=("prefill",))
    order = [prompt for prompt, _ in fake.asked[10:]]
    rounds = [order[i : i + 8] for i in range(0, len(order) - 7, 8)]
    assert len(rounds) >= 5
    assert all(len(set(r)) == 8 for r in rounds)
    assert len({tuple(r) for r in rounds}) > 1


def test_a_server_with_little_room() -> None:
    fake = Fake(max_context=128)
    seen = run(fake)
    assert max(prompt + answer for prompt, answer in fake.asked) <= 128
    assert seen.prefill is not None
    assert len(seen.prefill.points) >= 4
    assert seen.decode is not None
    assert seen.decode.tpot.value == pytest.approx(fake.tpot(seen.decode.tpot_context), rel=0.01)
    assert not failed(seen)
    (uncached,) = [check for check in seen.checks if check.name == "uncached"]
    assert "too few tokens to tell" in uncached.detail


@pytest.mark.parametrize("context", [2, 8, 40])
def test_hardly_any_room(context: int) -> None:
    fake = Fake(max_context=context)
    seen = run(fake)
    assert seen.prefill is not None


def test_a_server_that_refuses_long_prompts_sets_the_limit_itself() -> None:
    fake = Fake(max_context=None, refuse_over=1000)
    seen = run(fake)
    assert seen.prefill is not None
    assert seen.prefill.points[-1].tokens == 512
    assert "refused a prompt of 1,024 tokens (HTTP 400)" in seen.stopped
    assert seen.decode is not None
    assert max(point.prompt_tokens for point in seen.decode.points) == 512


def test_a_server_that_refuses_the_first_prompt_is_an_error() -> None:
    isolation = Isolation(Fake(refuse_over=1))
    with pytest.raises(Refused):
        isolation.run()
    nothing = isolation.observation()
    assert nothing.prefill is None
    assert nothing.decode is None
    assert nothing.checks == ()
    assert nothing.requests == 0


def test_own_lengths() -> None:
    fake = Fake()
    seen = run(fake, phases=("prefill",), lengths=[100, 3000, 700, 100])
    assert seen.prefill is not None
    assert [point.tokens for point in seen.prefill.points] == [100, 700, 3000]


def test_longest_prompt_asked_for() -> None:
    fake = Fake()
    run(fake, max_prompt=600)
    assert max(prompt for prompt, _ in fake.asked) == 600


def test_one_phase_only() -> None:
    prefill_only = run(Fake(), phases=("prefill",))
    assert prefill_only.decode is None
    assert {check.phase for check in prefill_only.checks} == {"prefill", "run"}
    fake = Fake(**FAST_GPU)  # type: ignore[arg-type]
    decode_only = run(fake, phases=("decode",))
    assert decode_only.prefill is None
    assert decode_only.decode is not None
    assert decode_only.decode.fit is not None
    assert covers(decode_only.decode.fit.per_context_token, 45e-9)
    assert {check.phase for check in decode_only.checks} == {"decode", "run"}


def test_cold_starts_neither_stop_the_climb_nor_stay_in_the_figures() -> None:
    fake = Fake(**FAST_GPU, cold=0.4, very_cold=20.0)  # type: ignore[arg-type]
    seen = run(fake)
    assert seen.prefill is not None
    assert seen.prefill.fit is not None
    assert seen.prefill.points[-1].tokens > 4000
    assert seen.prefill.fit.per_token.value == pytest.approx(20e-6, rel=0.01)
    assert not failed(seen)
    (warm,) = [check for check in seen.checks if check.name == "warm" and check.phase == "prefill"]
    assert "times the later ones" in warm.detail


@pytest.mark.parametrize("failure", [BrokenStream("The stream ended early."), KeyboardInterrupt()])
@pytest.mark.parametrize("at", [1, 2, 16, 60])
def test_what_was_measured_is_kept(at: int, failure: BaseException) -> None:
    fake = Fake(fail_at=at, failure=failure)
    isolation = Isolation(fake, clock=fake.clock)
    with pytest.raises(type(failure)):
        isolation.run()
    seen = isolation.observation()
    assert seen.requests == at - 1
    assert (seen.prefill is not None) == (at > 3)
    assert seen.stopped.endswith("interrupted" if isinstance(failure, KeyboardInterrupt) else "ended early.")
    if at == 16:
        assert seen.prefill is not None
        assert seen.prefill.fit is not None
        assert seen.decode is None


def test_a_first_request_that_takes_the_whole_budget_is_the_only_one() -> None:
    fake = Fake(very_cold=100.0)
    seen = run(fake, phases=("prefill",))
    assert len(fake.asked) == 1
    assert seen.prefill is None
    assert seen.requests == 1
    fake = Fake(very_cold=100.0)
    assert run(fake, phases=("decode",)).decode is None
    assert len(fake.asked) == 1


@pytest.mark.parametrize(
    "options", [{"budget_s": 0.0}, {"budget_s": float("nan")}, {"lengths": [16, 0]}, {"max_prompt": 0}]
)
def test_impossible_options_are_the_users_mistake(options: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        run(Fake(), **options)


def test_rows_tell_each_request() -> None:
    fake, book = Fake(ids=True), Kept()
    isolation = Isolation(fake, clock=fake.clock, book=book)
    seen = isolation.run()
    rows = book.requests
    assert [(r.prompt_tokens, r.answer_tokens_planned) for r in rows] == fake.asked
    assert [r.request for r in rows] == list(range(1, len(rows) + 1))
    assert 1 in isolation.unused()
    assert all((a.ended_s or 0) <= (b.sent_s or 0) for a, b in itertools.pairwise(rows))
    assert all(r.tpot_s is None for r in rows if r.phase == "prefill")
    last = rows[-1]
    assert (last.phase, last.completion_tokens, last.finish_reason) == ("decode", last.answer_tokens_planned, "length")
    assert last.tpot_s is not None
    events = dict(book.events)[last.request]
    assert events.tokens.sum() == len(events.at) == len(set(events.read.tolist())) == last.answer_tokens_planned
    assert np.diff(events.at).mean() * 1e-9 == pytest.approx(last.tpot_s, rel=1e-6)
    assert seen.prefill is not None
    used = [r for r in rows if r.phase == "prefill" and r.request not in isolation.unused()]
    assert len(used) == sum(point.samples for point in seen.prefill.points)


def test_a_request_that_failed_has_a_row() -> None:
    fake, book = Fake(failures={5: BrokenStream("It broke.")}), Kept()
    Isolation(fake, clock=fake.clock, book=book).run()
    failed = [row for row in book.requests if row.error]
    assert [(row.request, row.error, row.ttft_s, row.sent_s) for row in failed] == [(5, "It broke.", None, None)]
    assert [row.request for row in book.requests] == list(range(1, fake.attempts + 1))


def test_progress_is_told() -> None:
    fake = Fake()
    told: list[Progress] = []
    Isolation(fake, clock=fake.clock, budget_s=20.0, progress=told.append).run()
    assert len(told) == len(fake.asked)
    assert told[0].phase == "prefill"
    assert told[0].requests == 0
    assert told[-1].phase == "decode"
    assert "tokens in" in told[-1].doing
    fractions = [event.fraction for event in told]
    assert fractions == sorted(fractions)
    assert 0.0 <= fractions[0] < fractions[-1] <= 1.0


def test_metrics_that_fail_are_no_failure() -> None:
    class Mute(Fake):
        def activity(self) -> None:
            raise BrokenStream("No metrics today.")

    seen = run(Mute())
    (alone,) = [check for check in seen.checks if check.name == "alone"]
    assert alone.status == "not_checked"
