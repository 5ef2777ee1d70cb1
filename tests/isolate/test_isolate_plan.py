from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasewise.isolate import plan


@pytest.mark.parametrize(
    ("longest", "lengths"),
    [
        (8192, [16, 32, 64, 256, 512, 1024, 2048, 4096, 8192]),
        (8175, [16, 32, 64, 256, 512, 1024, 2048, 4096, 8175]),
        (700, [16, 32, 64, 256, 512, 700]),
        (512, [16, 32, 64, 256, 512]),
        (400, [16, 50, 100, 200, 400]),
        (111, [13, 27, 55, 111]),
        (1, [1]),
    ],
)
def test_ladder(longest: int, lengths: list[int]) -> None:
    assert plan.ladder(longest) == lengths


@given(st.integers(1, 10**6))
def test_ladder_climbs_to_the_longest(longest: int) -> None:
    rungs = plan.ladder(longest)
    assert rungs == sorted(set(rungs))
    assert rungs[0] >= 1
    assert rungs[-1] == longest
    # No rung costs more than four times the one before it, even where attention is all: the climb can be foretold.
    assert all(b <= 4 * a + 3 for a, b in itertools.pairwise(rungs))


def test_telling_takes_the_ends_then_the_middle() -> None:
    assert plan.telling([16, 64, 256, 512, 1024, 2048, 4096, 8192]) == [16, 8192, 4096, 256, 64, 1024, 512, 2048]
    assert plan.telling([128]) == [128]
    assert plan.telling([]) == []


@given(st.lists(st.integers(1, 10**6), max_size=12))
def test_telling_is_a_permutation(lengths: list[int]) -> None:
    assert sorted(plan.telling(lengths)) == sorted(set(lengths))


@pytest.mark.parametrize(
    ("times", "discard", "first"),
    [
        ([1.0, 1.0, 1.0], 1, 1),  # warm from the start: only the first is given up
        ([9.0, 1.0, 1.0], 1, 1),  # cold once
        ([9.0, 5.0, 1.0, 1.0], 1, 2),  # cold twice
        ([1.0, 1.5, 1.0, 1.2], 1, 1),  # noise is not warming up
        ([9.0, 7.0, 5.0, 4.0, 3.0, 2.0], 1, 3),  # never settles: three are given up, no more
        ([9.0], 1, 1),
        ([9.0, 5.0], 1, 1),
        ([1.0], 0, 0),
        ([1.0, 1.0], 0, 0),
        ([3.0, 1.0, 1.0], 0, 1),
        ([0.0018, 0.0010, 0.0010], 0, 0),  # under a millisecond nobody can tell
        ([], 1, 1),
    ],
)
def test_first_kept(times: list[float], discard: int, first: int) -> None:
    assert plan.first_kept(times, discard) == first


def test_longest_prompt_leaves_room_for_the_answer() -> None:
    assert plan.longest_prompt(8192, None, 1) == 8192 - 1 - plan.MARGIN
    assert plan.longest_prompt(8192, 1000, 1) == 1000
    assert plan.longest_prompt(8192, 100_000, 256) == 8192 - 256 - plan.MARGIN
    assert plan.longest_prompt(None, None, 1) == plan.UNKNOWN_LIMIT
    assert plan.longest_prompt(None, 65536, 1) == 65536
    assert plan.longest_prompt(8, None, 1) == 1
