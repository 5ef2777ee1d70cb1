"""Plans: bounds, shares of workers, shared blocks, slices and speeds of logs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasewise.errors import InputError, UsageError
from phasewise.isolate.workload.arrivals import Arrivals
from phasewise.isolate.workload.plan import Bounds, Plan, closed, open_loop, within
from phasewise.isolate.workload.replay import Logged, Slice, replay
from phasewise.isolate.workload.shapes import mix

POISSON = Arrivals(process="poisson", rate=10)


@given(requests=st.integers(1, 300), tokens=st.integers(1, 5000), seconds=st.floats(0.1, 30), users=st.integers(0, 9))
def test_no_plan_exceeds_its_bounds(requests: int, tokens: int, seconds: float, users: int) -> None:
    bounds = Bounds(requests=requests, tokens=tokens, seconds=seconds)
    shapes = mix("1..40:1..20")
    plan = (
        closed(users, shapes, bounds, seed=1, salt=2) if users else open_loop(POISSON, shapes, bounds, seed=1, salt=2)
    )
    assert len(plan) <= requests
    assert sum(plan.tokens) <= tokens
    assert plan.due_s is None or (plan.due_s < seconds).all()


@given(workers=st.integers(1, 7), users=st.integers(0, 9))
def test_shares_of_workers_are_the_whole(workers: int, users: int) -> None:
    bounds, shapes = Bounds(requests=50), mix("1..40:1..20")
    plan = (
        closed(users, shapes, bounds, seed=1, salt=2) if users else open_loop(POISSON, shapes, bounds, seed=1, salt=2)
    )
    shares = [plan.share(worker, workers) for worker in range(workers)]
    assert sorted(int(key) for share in shares for key in share.keys) == list(range(50))
    for share in shares:
        for place, key in enumerate(share.keys.tolist()):
            assert share.prompt[place] == plan.prompt[key]
            assert share.pieces(place) == plan.pieces(key)
    if users:
        owners = [{share.user(i) for i in range(len(share))} for share in shares]
        assert sum(map(len, owners)) == len(set().union(*owners))


def logged(**fields: object) -> Logged:
    found: dict[str, object] = {
        "name": "log",
        "prompt": np.array([1024, 1100, 600, 0]),
        "answer": np.array([10, 20, 30, 0]),
        "time_s": np.array([103.0, 100.0, 101.0, 110.0]),
        "ids": np.array([7, 8, 7, 8, 9, 7, 4], np.uint64),
        "counts": np.array([2, 3, 2, 0]),
    }
    return Logged(**(found | fields))  # type: ignore[arg-type]


def replayed(part: Slice | None = None, **fields: object) -> Plan:
    return replay(logged(**fields), part or Slice(), Bounds(), seed=0, salt=5)


def test_a_log_at_its_times_in_order() -> None:
    plan = replayed()
    assert plan.due_s is not None
    assert plan.due_s.tolist() == [0, 1, 3, 10]
    assert plan.prompt.tolist() == [1100, 600, 1024, 1]
    assert plan.answer.tolist() == [20, 30, 10, 1]


def test_a_slice_twice_as_fast() -> None:
    plan = replayed(Slice(begin=1, seconds=5, speed=2))
    assert plan.due_s is not None
    assert plan.due_s.tolist() == [0, 1]
    assert plan.prompt.tolist() == [600, 1024]
    with pytest.raises(UsageError, match="no request from 50 s"):
        replayed(Slice(begin=50))


def test_equal_ids_are_equal_pieces_of_a_block() -> None:
    plan = replayed()
    first, second, third = plan.pieces(0), plan.pieces(1), plan.pieces(2)
    assert [piece.tokens for piece in first] == [512, 512, 76]
    assert [piece.tokens for piece in second] == [512, 88]
    assert first[0] == second[0] == third[0]
    assert first[1] == third[1]
    assert first[1].key != second[1].key


def test_another_size_of_block_is_seen_and_none_is_refused() -> None:
    sixteen = replayed(prompt=np.array([20, 33]), answer=np.array([1, 1]), time_s=np.array([0.0, 1.0]),
                       ids=np.array([1, 2, 1, 3, 4], np.uint64), counts=np.array([2, 3]))  # fmt: skip
    assert sixteen.blocks is not None
    assert sixteen.blocks.tokens == 16
    with pytest.raises(InputError, match="no block size"):
        replayed(prompt=np.array([20, 33]), answer=np.array([1, 1]), time_s=np.array([0.0, 1.0]),
                 ids=np.arange(11, dtype=np.uint64), counts=np.array([1, 10]))  # fmt: skip


def test_a_log_without_times_needs_a_rate_or_users() -> None:
    with pytest.raises(UsageError, match="--rate 2 or --users 8"):
        replayed(time_s=None)
    with pytest.raises(UsageError, match="--speed"):
        replayed(Slice(speed=2), time_s=None)
    plan = replay(logged(time_s=None), Slice(), Bounds(), users=2, seed=0, salt=1)
    assert plan.prompt.tolist() == [1024, 1100, 600, 1]
    assert plan.due_s is None


def test_what_the_context_cannot_hold_is_left_out() -> None:
    plan, out = within(replayed(), 1030)
    assert out == 2
    assert plan.prompt.tolist() == [600, 1]
    assert [piece.tokens for piece in plan.pieces(0)] == [512, 88]
