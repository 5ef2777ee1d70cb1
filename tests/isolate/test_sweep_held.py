"""Was a batch held: streams by hand, in lock step and in every way out of it."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sweep_streams import look, stream

from phasewise.isolate.held import held

STEP = 0.010


def lockstep(batch: int, tokens: int, *, stagger: int = 0, jitter: float = 0.0) -> list:
    """``batch`` streams that get a token each step; stream k starts ``stagger`` · k steps late."""
    noise = random.Random(1)
    return [
        stream([1.0 + STEP * (i + k * stagger) + k * 1e-5 + noise.uniform(0, jitter) for i in range(tokens)], key=k)
        for k in range(batch)
    ]


def test_a_held_batch_by_hand() -> None:
    found = held(lockstep(4, 50, stagger=2), [], 4)
    # The last starts 6 steps after the first, and two steps more are left out; the first ends with its 50th token.
    assert found.step == pytest.approx(STEP, rel=1e-6)
    assert (found.together, found.preempted, found.proof) == (4, 0, "passed")
    assert found.ramp == 7
    # The window runs from 1.08 to 1.49 s. In it are tokens 10 to 50 of the first stream, 8 to 47, 6 to 45 and 3 to 43
    # of the others; token k is made after 32 + k - 1 tokens.
    contexts = [32 + (first + last) / 2 - 0.5 for first, last in ((10, 50), (8, 47), (6, 45), (3, 43))]
    assert found.context == pytest.approx(sum(contexts) / 4)


def test_counters_prove_and_disprove() -> None:
    streams = lockstep(3, 50)
    inside = 1.2
    assert "looks at the counters" in held(streams, [look(inside, 3)], 3).proved_by
    assert held(streams, [look(inside, 3)], 3).proof == "passed"
    # Counters and arrivals that contradict each other prove nothing.
    assert held(streams, [look(inside, 2, 1)], 3).proof == "not_checked"
    # Looks before all ran, or after the first ended, say nothing of the window.
    assert held(streams, [look(0.5, 1), look(3.0, 0)], 3).proved_by.endswith("not read in that time")


def test_a_server_that_runs_fewer_is_seen() -> None:
    first = [stream([1.0 + STEP * i for i in range(40)], key=k) for k in range(2)]
    later = [stream([1.5 + STEP * i for i in range(40)], key=k) for k in (2, 3)]
    found = held([*first, *later], [], 4)
    assert (found.together, found.step, found.proof) == (2, None, "failed")


def test_a_stream_that_stops_while_others_go_on_was_preempted() -> None:
    streams = lockstep(3, 60)
    at = [1.0 + STEP * i + (0.3 if i >= 30 else 0.0) for i in range(60)]
    found = held([*streams, stream(at, key=9)], [], 4)
    assert found.preempted == 1
    assert found.proof == "failed"
    assert "1 of 4 streams stopped" in found.proved_by


def test_a_pause_of_all_is_no_preemption() -> None:
    at = [1.0 + STEP * i + (0.3 if i >= 30 else 0.0) for i in range(60)]
    found = held([stream(at, key=k) for k in range(4)], [], 4)
    assert found.preempted == 0
    assert found.step == pytest.approx(STEP, rel=1e-6)


def test_replicas_that_step_apart_are_not_taken_for_one_batch() -> None:
    one = [stream([1.0 + STEP * i for i in range(50)], key=k) for k in range(2)]
    other = [stream([1.005 + STEP * i for i in range(50)], key=k) for k in (2, 3)]
    assert held([*one, *other], [], 4).proof == "not_checked"


def test_streams_of_different_speed_are_no_batch() -> None:
    slow = stream([1.0 + 2 * STEP * i for i in range(30)], key=7)
    assert held([*lockstep(2, 60), slow], [], 3).proof == "failed"


@pytest.mark.parametrize("burst", [2, 3, 5])
def test_bursts_do_not_hide_the_step(burst: int) -> None:
    # Every `burst` tokens arrive together, at the time of the last.
    at = [1.0 + STEP * burst * (i // burst) for i in range(96)]
    found = held([stream(at, key=k, reads=[i // burst for i in range(96)]) for k in range(2)], [], 2)
    assert found.step == pytest.approx(STEP, rel=1e-6)


def test_tokens_withheld_until_their_character_is_complete_are_counted_by_usage() -> None:
    # Two of three tokens send nothing: an event every third step, but usage counts them all.
    at = [1.0 + 3 * STEP * i for i in range(30)]
    found = held([stream(at, usage=90, told=False)], [], 1)
    assert found.step == pytest.approx(STEP, rel=1e-6)


@given(st.integers(1, 16), st.integers(30, 80), st.floats(1e-3, 0.1), st.integers(0, 2**16))
def test_jitter_far_below_the_step_moves_it_little(batch: int, tokens: int, step: float, seed: int) -> None:
    noise = random.Random(seed)
    streams = [
        stream([1.0 + step * i + noise.uniform(0, step / 50) for i in range(tokens)], key=k) for k in range(batch)
    ]
    found = held(streams, [], batch)
    assert found.step == pytest.approx(step, rel=0.01)
    assert found.proof == "passed"
