"""A captured phase beside the client's times: by hand arithmetic."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasewise.isolate.recorded import Sent
from phasewise.judge.captured import Timed, compared, untraced
from phasewise.judge.captured_checks import every_rank, passes
from phasewise.record.observation import PrefillObservation, PrefillPoint
from phasewise.record.quantity import measured
from phasewise.record.sweep import Cell
from phasewise.record.trace import Tokens, TraceFile, TracePhase, TraceStep


def step(
    phase: TracePhase, start: float, *, prompts: int = 0, answers: int = 0, rank: int = 0, **more: Any
) -> TraceStep:
    """A step of 8 ms span, 6 ms of which kernels run; their sum is 7 ms."""
    return TraceStep(
        rank=rank,
        label="",
        phase=phase,
        evidence=(),
        confidence=1.0,
        start_s=start,
        span_s=more.get("span", 8e-3),
        gpu_time_s=7e-3,
        union_s=6e-3,
        kernels=10,
        launches=10,
        graph_launches=0,
        requests=(prompts > 0) + answers,
        tokens=more.get("tokens", prompts + answers),
        prefill=Tokens(requests=1, tokens=prompts) if prompts else None,
        decode=Tokens(requests=answers, tokens=answers) if answers else None,
    )


def seen(ttft: float, tpot: float, *, batch: int = 1, context: float = 100.0) -> Timed:
    """What a client timed: prompts of 100 tokens, and a batch at ``context``."""
    points = (PrefillPoint(tokens=100, ttft=measured(ttft, "s", ""), best=ttft, samples=5),)
    return Timed(PrefillObservation(points=points, fit=None), held(tpot, batch, context))


def held(tpot: float, batch: int, context: float) -> Cell:
    return Cell(
        batch=batch,
        prompt_tokens=90,
        context=context,
        step=measured(tpot, "s", ""),
        throughput=None,
        samples=4,
        steps=100,
        together=batch,
        proof="passed",
        proved_by="",
    )


def test_decode_by_hand() -> None:
    """Steps every 10 ms of 8 ms, 6 ms of kernels; the client saw 10.1 ms then, and 9 ms without the profiler."""
    steps = [step("decode", 0.01 * at, answers=1) for at in range(8)]
    one = compared("decode", Sent(requests=1, batch=1, step_s=10.1e-3), steps, seen(0.1, 9e-3))
    parts = {part.name: part.seconds.value for part in one.parts}
    assert parts == pytest.approx(
        {"kernels": 6e-3, "gaps": 2e-3, "between": 2e-3, "front end": 0.1e-3, "profiler": -1.1e-3}
    )
    assert one.kernels is not None
    assert one.kernels.value == pytest.approx(7e-3)
    assert one.traced is not None
    assert one.traced.value == pytest.approx(10e-3)
    assert one.agrees is False
    assert "+11.1%" in one.text
    assert "the profiler made a step 1.10 ms slower" in one.text
    assert all(check.status == "passed" for check in one.checks)


@pytest.mark.parametrize(("client", "agrees"), [(9.6e-3, True), (10.5e-3, True), (9.4e-3, False), (10.6e-3, False)])
def test_within_five_percent_of_the_client(client: float, agrees: bool) -> None:
    steps = [step("decode", 0.01 * at, answers=1) for at in range(8)]
    one = compared("decode", Sent(requests=1, batch=1, step_s=10.1e-3), steps, seen(0.1, client))
    assert one.agrees is agrees
    assert ("agree within 5%" in one.text) is agrees


def test_prefill_in_chunks_by_hand() -> None:
    """Two prompts of 100 tokens in chunks of 64 and 36: 8 ms, 1 ms of nothing, 8 ms. The client saw 20 ms."""
    starts = ((0.0, 64), (9e-3, 36), (0.1, 64), (0.109, 36))
    steps = [step("prefill", start, prompts=tokens) for start, tokens in starts]
    one = compared(
        "prefill",
        Sent(requests=2, prompt_tokens=(100, 100), cached_tokens=(0, 0), pass_s=20e-3),
        steps,
        seen(20e-3, 9e-3),
    )
    parts = {part.name: part.seconds.value for part in one.parts}
    assert parts == pytest.approx(
        {"kernels": 12e-3, "gaps": 4e-3, "between": 1e-3, "front end": 3e-3, "profiler": 0.0}, abs=1e-12
    )
    assert one.traced is not None
    assert one.traced.value == pytest.approx(17e-3)
    assert one.agrees is False
    assert "3.00 ms lie outside of its steps" in one.text


def test_a_cached_prompt_is_missed() -> None:
    sent = Sent(requests=1, prompt_tokens=(100,), cached_tokens=(64,), pass_s=20e-3)
    one = compared("prefill", sent, [step("prefill", 0.0, prompts=36)], seen(20e-3, 9e-3))
    failed = {check.name: check.detail for check in one.checks if check.status == "failed"}
    assert failed.keys() == {"tokens_as_sent", "uncached"}
    assert "a prefix cache gave some of them" in failed["tokens_as_sent"]
    assert one.parts == ()
    assert one.why_null


def test_a_step_of_another_phase() -> None:
    steps = [step("decode", 0.01 * at, answers=1) for at in range(4)] + [step("prefill", 0.1, prompts=9)]
    one = compared("decode", Sent(requests=1, batch=1, step_s=10e-3), steps, seen(0.1, 9e-3))
    (check,) = [check for check in one.checks if check.name == "one_phase"]
    assert check.status == "failed"
    assert check.voids
    assert "4 decode, 1 prefill" in check.detail


def test_two_requests_where_one_was_sent() -> None:
    steps = [step("decode", 0.01 * at, answers=1 + at % 2) for at in range(4)]
    one = compared("decode", Sent(requests=1, batch=1, step_s=10e-3), steps, seen(0.1, 9e-3))
    (check,) = [check for check in one.checks if check.name == "tokens_as_sent"]
    assert (check.status, check.voids) == ("failed", True)


def test_counts_that_are_not_said_are_not_checked() -> None:
    bare = [step("prefill", 0.1 * at, tokens=None) for at in range(2)]
    sent = Sent(requests=2, prompt_tokens=(100, 100), cached_tokens=(None, None), pass_s=20e-3)
    one = compared("prefill", sent, bare, seen(20e-3, 9e-3))
    told = {check.name: check.status for check in one.checks}
    assert told == {"one_phase": "passed", "tokens_as_sent": "not_checked", "uncached": "not_checked"}
    assert one.parts, "there are as many steps as prompts"


def test_not_timed_is_not_zero() -> None:
    steps = [step("decode", 0.01 * at, answers=1) for at in range(4)]
    one = compared("decode", Sent(requests=1, batch=1, step_s=10e-3), steps, Timed())
    assert (one.client, one.agrees, one.parts) == (None, None, ())
    assert one.why_null == "the phase was not timed by a client"


def test_another_length_than_was_timed_is_not_compared() -> None:
    sent = Sent(requests=1, prompt_tokens=(200,), cached_tokens=(0,), pass_s=20e-3)
    one = compared("prefill", sent, [step("prefill", 0.0, prompts=200)], seen(20e-3, 9e-3))
    assert one.client is None


def test_a_mix_whose_label_is_wrong() -> None:
    steps = [step("decode", 0.0, answers=1), step("decode", 0.01, prompts=100, answers=1)]
    one = compared("mixed", Sent(requests=1, prompt_tokens=(100,), batch=1), steps, Timed())
    (check,) = [check for check in one.checks if check.name == "mix_labelled"]
    assert check.status == "failed"
    assert "1 of 2 steps" in check.detail


@given(st.lists(st.lists(st.integers(1, 50), min_size=1, max_size=5), min_size=1, max_size=6))
def test_chunks_are_gathered_by_prompt(chunks: list[list[int]]) -> None:
    flat = [tokens for prompt in chunks for tokens in prompt]
    steps = [step("prefill", float(at), prompts=tokens) for at, tokens in enumerate(flat)]
    found = passes(steps, [sum(prompt) for prompt in chunks])
    assert [[one.tokens for one in group] for group in found] == chunks
    assert passes(steps, [sum(prompt) + 1 for prompt in chunks]) == []
    assert passes(steps[:-1], [sum(prompt) for prompt in chunks]) == []


@pytest.mark.parametrize(
    ("worlds", "stated", "status"),
    [
        ((2, 2), None, "passed"),
        ((2,), None, "failed"),
        ((None,), 2, "failed"),
        ((1,), 1, "passed"),
        ((None,), None, "not_checked"),
    ],
)
def test_every_rank(worlds: tuple[int | None, ...], stated: int | None, status: str) -> None:
    files = [
        TraceFile(name="f", form="", rank=at, world=world, engine="", graph_mode="", devices=())
        for at, world in enumerate(worlds)
    ]
    assert every_rank("decode", files, stated).status == status


def test_a_client_that_saw_a_burst_is_still_beside_the_trace() -> None:
    """All tokens came at once while the profiler ran: its cost is open, the comparison is not."""
    steps = [step("decode", 0.01 * at, answers=1) for at in range(8)]
    one = compared("decode", Sent(requests=1, batch=1, step_s=None), steps, seen(0.1, 8e-3))
    assert one.agrees is False
    assert one.parts == ()
    assert "+25.0%" in one.text
    assert "what the profiler cost is open" in one.text
    assert "not timed" not in one.why_null


def test_rounding_between_two_clocks_is_none() -> None:
    steps = [step("prefill", 0.1 * at, prompts=100, span=0.03) for at in range(3)]
    sent = Sent(requests=3, prompt_tokens=(100, 100, 100), pass_s=0.04)
    one = compared("prefill", sent, steps, seen(0.1, 8e-3))
    assert {part.name: part.seconds.value for part in one.parts}["between"] == 0.0


def test_phases_that_never_met_are_no_wrong_labels() -> None:
    steps = [step("decode", 0.0, answers=1), step("prefill", 0.01, prompts=100), step("decode", 0.02, answers=1)]
    one = compared("mixed", Sent(requests=1, prompt_tokens=(100,), batch=1), steps, Timed())
    (met,) = [check for check in one.checks if check.name == "mix_labelled"]
    assert met.status == "not_checked"
    assert "no step held both phases" in met.detail


def test_the_clients_time_is_told_without_a_trace() -> None:
    one = untraced("decode", Sent(requests=1, batch=1, step_s=9e-3), seen(0.1, 8e-3), "the trace was not read")
    assert one.client is not None
    assert one.slowed is not None
    assert (one.client.value, one.slowed.value, one.traced) == (8e-3, 9e-3, None)


def test_a_trace_that_shows_more_than_the_client_saw_says_so() -> None:
    """Nothing is left that the sentence does not name: +2 ms are 2.1 less 0.1."""
    steps = [step("decode", 0.01 * at, answers=1) for at in range(8)]
    one = compared("decode", Sent(requests=1, batch=1, step_s=7.9e-3), steps, seen(0.1, 8e-3))
    assert "the recorded run was 100 µs a step faster" in one.text
    assert "the trace has 2.10 ms a step more than the client saw" in one.text


def contexts(first: int, by: int, batch: int) -> list[TraceStep]:
    """Six decode steps of ``batch`` requests that attend to ``first`` tokens, and ``by`` more each time."""
    return [
        msgspec.structs.replace(
            step("decode", 0.01 * at, answers=batch),
            decode=Tokens(requests=batch, tokens=batch, context=first + by * at),
        )
        for at in range(6)
    ]


@pytest.mark.parametrize(
    ("first", "by", "status"),
    [(440, 4, "passed"), (460, 4, "passed"), (439, 4, "failed"), (461, 4, "failed"), (440, 3, "failed")],
)
def test_contexts_lie_between_what_came_before_and_after(first: int, by: int, status: str) -> None:
    """Four prompts of 100: 40 tokens had come before the recorder started, 80 when it had stopped."""
    sent = Sent(requests=4, batch=4, step_s=10e-3, contexts=(440, 480))
    one = compared("decode", sent, contexts(first, by, 4), seen(0.1, 9e-3, batch=4))
    (check,) = [check for check in one.checks if check.name == "tokens_as_sent"]
    assert check.status == status, check.detail


def test_fewer_requests_than_were_sent() -> None:
    steps = [step("decode", 0.01 * at, answers=4 - (at == 2)) for at in range(4)]
    one = compared("decode", Sent(requests=4, batch=4, step_s=10e-3), steps, seen(0.1, 9e-3, batch=4))
    (check,) = [check for check in one.checks if check.name == "tokens_as_sent"]
    assert check.status == "failed"
    assert "decoded 3 tokens of 3 requests where 4 were sent: they were held up" in check.detail


def test_another_batch_is_no_time_of_this_one() -> None:
    steps = [step("decode", 0.01 * at, answers=4) for at in range(4)]
    one = compared("decode", Sent(requests=4, batch=4, step_s=10e-3), steps, seen(0.1, 9e-3, batch=3))
    assert (one.client, one.agrees) == (None, None)


def test_contexts_that_differ_are_named() -> None:
    steps = [step("decode", 0.01 * at, answers=2) for at in range(8)]
    timed = seen(0.1, 9.9e-3, batch=2, context=1000.0)
    one = compared("decode", Sent(requests=2, batch=2, step_s=10e-3, context=1051.0), steps, timed)
    assert one.text.startswith("a step of 2 requests takes 9.90 ms by the client")
    assert one.text.endswith("; it was timed at 1,000 tokens of context and recorded at 1,051.")
    near = compared("decode", Sent(requests=2, batch=2, step_s=10e-3, context=1049.0), steps, timed)
    assert near.text.endswith("they agree within 5%.")
