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

NEEDED = {50: 2, 90: 10, 95: 20, 99: 100}
"""Values of which one is expected beyond the percentile: 100 / (100 - p)."""


@given(st.lists(st.floats(0, 1e3), min_size=1, max_size=200))
def test_percentiles_are_numpys(values: list[float]) -> None:
    found = spread(np.array(values), "s", "test")
    assert found is not None
    for percent, least in NEEDED.items():
        given = found.points.get(f"p{percent}")
        assert (given is not None) == (len(values) >= least)
        assert (f"p{percent}" in found.missing) == (given is None)
        assert given is None or given.value == pytest.approx(float(np.percentile(values, percent)))


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
    for percent, least in NEEDED.items():
        given = found.points.get(f"p{percent}")
        assert (given is not None) == (np.count_nonzero(weights) >= least)
        assert given is None or given.value == pytest.approx(float(np.percentile(every, percent)))


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
    assert inflation(RANDOM.exponential(size=2000), 0.7) < 4
    one = spread(alike, "s", "t")
    other = spread(RANDOM.permutation(alike), "s", "t")
    assert one is not None
    assert other is not None
    assert one.points["p50"].high - one.points["p50"].low > 2 * (other.points["p50"].high - other.points["p50"].low)  # type: ignore[operator]


def test_the_interval_of_a_part_is_clopper_pearsons() -> None:
    every = np.ones(50, bool)
    found, exact = share(every, "t"), stats.binomtest(50, 50).proportion_ci(0.95, "exact")
    assert (found.low, found.high) == (pytest.approx(exact.low), pytest.approx(exact.high))
    # One that missed in each of five stretches: they vary by nothing, and five leave t(4)/z = 2.776/1.960 unsure.
    met = np.tile([True] * 9 + [False], 5)
    found, effective = share(met, "t"), 50 / (2.7764451 / 1.9599640) ** 2
    hits, misses = 0.9 * effective, 0.1 * effective
    low, high = stats.beta.ppf(0.025, hits, misses + 1), stats.beta.ppf(0.975, hits + 1, misses)
    assert (found.low, found.high) == (pytest.approx(low), pytest.approx(high))


def behind_a_queue(count: int, load: float, runs: int) -> np.ndarray:
    """Times in system of a server that takes 1 s for each, Poisson arrivals at ``load`` a second (Lindley 1952)."""
    between, waits = RANDOM.exponential(1 / load, (runs, count + 300)), np.zeros((runs, count + 300))
    for place in range(1, count + 300):
        waits[:, place] = np.maximum(0.0, waits[:, place - 1] + 1 - between[:, place])
    return 1 + waits[:, 300:] + RANDOM.normal(0, 0.02, (runs, count))


@pytest.mark.parametrize("count", [20, 40, 80, 200])
@pytest.mark.parametrize(("load", "least"), [(0.5, 0.90), (0.8, 0.78)])
def test_few_requests_that_queue_are_not_taken_as_independent(count: int, load: float, least: float) -> None:
    """How often a 95% interval holds the median, and the part within a limit: as independent, 0.45 to 0.76 at 80%."""
    long = behind_a_queue(20_000, load, 20)
    median, limit = float(np.median(long)), float(np.quantile(long, 0.8))
    part = float(np.mean(long <= limit))
    runs = behind_a_queue(count, load, 150)
    found = [spread(values, "s", "t") for values in runs]
    points = [one.points["p50"] for one in found if one is not None]
    held = [(p.low is None or p.low <= median) and (p.high is None or median <= p.high) for p in points]
    assert np.mean(held) >= least
    # Where all or none met, nothing tells how alike they are; the interval is of independent ones then.
    met = [share(values <= limit, "t") for values in runs]
    held = [one.low <= part <= one.high for one in met if 0 < one.value < 1]  # type: ignore[operator]
    assert np.mean(held) >= least - 0.1


def test_what_too_few_requests_carry_is_said() -> None:
    found = spread(np.arange(19.0), "s", "t")
    assert found is not None
    assert set(found.points) == {"p50", "p90"}
    assert found.missing["p99"] == "19 values are too few: 100 are needed for one to lie beyond it"
    alone = spread(np.array([3.0]), "s", "t")
    assert alone is not None
    assert alone.points == {}
    assert alone.mean.value == 3.0


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
    assert found.rate.low == pytest.approx(3 * (found.met.low or 0))  # six requests in two seconds
    assert found.rate.high == pytest.approx(3 * (found.met.high or 0))
    assert found.holds == "undecided"  # of six requests that may be alike
    more = (np.tile(one, 10) for one in (ttft, tpot, failed))
    assert goodput(*more, Limits(ttft_s=0.5, tpot_s=0.05, part=0.9), 2.0).holds == "breaks"  # type: ignore[misc, arg-type]


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
