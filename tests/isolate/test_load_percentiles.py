"""Percentiles, their intervals, the part that met a limit, gaps of tokens that came together."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from phasewise.isolate.workload.gaps import arrived, gaps
from phasewise.isolate.workload.goodput import goodput
from phasewise.isolate.workload.percentiles import bounds, inflation, share, spread, weighted
from phasewise.isolate.workload.window import window
from phasewise.record.load import Limits

RANDOM = np.random.default_rng(7)


@given(st.lists(st.floats(0, 1e3), min_size=1, max_size=200))
def test_percentiles_are_numpys(values: list[float]) -> None:
    found = spread(np.array(values), "s", "test")
    assert found is not None
    for percent in (50, 90, 95, 99):
        assert found.points[f"p{percent}"].value == pytest.approx(float(np.percentile(values, percent)))


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 6)), min_size=1, max_size=60))
def test_weighted_percentiles_are_those_of_each_value_repeated(pairs: list[tuple[int, int]]) -> None:
    values, weights = np.array([float(v) for v, _ in pairs]), np.array([w for _, w in pairs])
    found = weighted(values, weights, "s", "test")
    every = np.repeat(values, weights)
    if not len(every):
        assert found is None
        return
    assert found is not None
    assert found.count == len(every)
    assert found.mean.value == pytest.approx(every.mean())
    for percent in (50, 90, 95, 99):
        assert found.points[f"p{percent}"].value == pytest.approx(float(np.percentile(every, percent)))


@pytest.mark.parametrize(("count", "part"), [(50, 0.5), (400, 0.9), (400, 0.99), (1000, 0.99)])
def test_order_statistics_cover_the_quantile(count: int, part: float) -> None:
    # P(X_(l) <= Q < X_(u)) is exact for any continuous distribution: a binomial sum.
    low, high = bounds(count, part)
    assert low is not None
    assert high is not None
    ranks = np.arange(low + 1, high + 1)
    assert stats.binom.pmf(ranks, count, part).sum() >= 0.95
    hits = 0
    for _ in range(400):
        ordered = np.sort(RANDOM.exponential(size=count))
        hits += ordered[low] <= -np.log(1 - part) <= ordered[high]
    assert hits >= 0.92 * 400


def test_p99_has_an_upper_end_from_368_values_on() -> None:
    # The largest of n lies above the 99% quantile with probability 1 - 0.99^n: 0.975 at n = 367.03.
    assert bounds(367, 0.99)[1] is None
    assert bounds(368, 0.99)[1] == 367


def test_values_in_runs_tell_less() -> None:
    alike = np.repeat(RANDOM.exponential(size=40), 50)
    assert inflation(alike, float(np.median(alike))) > 10
    assert inflation(RANDOM.exponential(size=2000), 0.7) < 2.5
    one = spread(alike, "s", "t")
    other = spread(RANDOM.permutation(alike), "s", "t")
    assert one is not None
    assert other is not None
    assert one.points["p50"].high - one.points["p50"].low > 2 * (other.points["p50"].high - other.points["p50"].low)  # type: ignore[operator]


def test_the_interval_of_a_part_is_clopper_pearsons() -> None:
    met = RANDOM.permutation(np.array([True] * 45 + [False] * 5))
    found = share(met, "t")
    exact = stats.binomtest(45, 50).proportion_ci(0.95, "exact")
    assert (found.low, found.high) == (pytest.approx(exact.low), pytest.approx(exact.high))


def test_goodput_by_hand() -> None:
    nan = np.nan
    ttft = np.array([0.1, 0.2, 0.6, nan, 0.1, 0.1])
    tpot = np.array([0.02, 0.06, 0.02, nan, nan, 0.02])
    failed = np.array([False, False, False, True, False, True])
    found = goodput(ttft, tpot, failed, Limits(ttft_s=0.5, tpot_s=0.05, part=0.9), 2.0)
    assert found.met.value == pytest.approx(2 / 6)
    assert found.rate.value == 1.0
    assert found.met_ttft is not None
    assert found.met_ttft.value == pytest.approx(3 / 6)
    assert found.holds == "breaks"


def test_which_limit_is_nearer() -> None:
    ttft, tpot = np.full(100, 0.2), np.full(100, 0.045)
    found = goodput(ttft, tpot, np.zeros(100, bool), Limits(ttft_s=0.5, tpot_s=0.05, part=0.9), 10.0)
    assert found.holds == "holds"
    assert found.first == "tpot"
    assert found.nearness == {"ttft": pytest.approx(0.4), "tpot": pytest.approx(0.9)}


def test_tokens_of_one_read_are_one_gap() -> None:
    request = np.array([1, 1, 1, 1, 1, 2, 2])
    at = np.array([0.0, 1.0, 1.0, 1.0, 3.0, 0.5, 0.9])
    read = np.array([2, 3, 3, 3, 4, 2, 3])
    tokens = np.array([1, 1, np.nan, 0, 2, np.nan, np.nan])
    shows = np.array([True, True, True, False, True, True, False])
    found = gaps(arrived(request, at, read, tokens, shows))
    assert found.seconds.tolist() == [1.0, 2.0]
    assert found.tokens.tolist() == [2, 2]


def test_the_window_of_a_closed_loop() -> None:
    # Two users; the second has its first token at 1.5; the first has nothing more to send after 8.
    user = np.array([0.0, 1, 0, 1, 1])
    due = np.array([0.0, 0, 4, 5, 9])
    first, ended = due + np.array([0.5, 1.5, 0.5, 0.5, 0.5]), np.array([4.0, 5, 8, 9, 12])
    found = window(due=due, first=first, ended=ended, user=user, seconds=60, trims=True)
    assert (found.begin_s, found.end_s, found.requests) == (1.5, 8.0, 2)


def test_the_window_of_an_open_loop_and_of_none() -> None:
    due = np.arange(100) / 10
    found = window(due=due, first=due + 0.1, ended=due + 1.0, user=due * np.nan, seconds=10, trims=True)
    assert (found.begin_s, found.end_s) == (pytest.approx(1.0), pytest.approx(9.9))
    assert found.requests == 90
    whole = window(due=due, first=due + 0.1, ended=due + 30, user=due * np.nan, seconds=10, trims=True)
    assert whole.requests == 100
    assert whole.rule.startswith("all requests")
