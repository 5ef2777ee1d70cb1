"""Arrival processes and lengths: their statistics, by tests that know nothing of how they are drawn."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from phasewise.errors import UsageError
from phasewise.isolate.workload.arrivals import Arrivals
from phasewise.isolate.workload.shapes import draw, length, mix

SEEDED = 20_261_129


def due(seconds: float, most: int = 1_000_000, **fields: object) -> np.ndarray:
    return Arrivals(**fields).due(seconds, most, np.random.default_rng(SEEDED))  # type: ignore[arg-type]


def test_poisson_gaps_are_exponential() -> None:
    times = due(1000, process="poisson", rate=20)
    assert len(times) == pytest.approx(20_000, abs=4 * 20_000**0.5)
    assert stats.kstest(np.diff(times), "expon", args=(0, 1 / 20)).pvalue > 0.01


@pytest.mark.parametrize("burstiness", [0.25, 1.0, 4.0])
def test_gamma_gaps_have_the_stated_shape(burstiness: float) -> None:
    times = due(1000, process="gamma", rate=20, burstiness=burstiness)
    gaps = np.diff(times)
    assert stats.kstest(gaps, "gamma", args=(burstiness, 0, 1 / (20 * burstiness))).pvalue > 0.01
    assert gaps.std() / gaps.mean() == pytest.approx(burstiness**-0.5, rel=0.05)


def test_a_ramp_is_a_poisson_process_whose_rate_grows_linearly() -> None:
    # The distribution of arrivals over [0, T] of r(t) = 2 + 18 t/T is t(2 + 9t/T) / (11 T).
    times = due(1000, process="ramp", rate=2, to_rate=20)
    assert len(times) == pytest.approx(11_000, abs=4 * 11_000**0.5)
    assert stats.kstest(times, lambda t: t * (2 + 9 * t / 1000) / 11_000).pvalue > 0.01
    down = due(1000, process="ramp", rate=20, to_rate=0)
    assert stats.kstest(down, lambda t: t * (20 - 10 * t / 1000) / 10_000).pvalue > 0.01


def test_constant_and_bursts_to_the_second() -> None:
    assert due(2, process="constant", rate=4).tolist() == [0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75]
    assert due(5, process="burst", rate=2, size=4).tolist() == [0] * 4 + [2] * 4 + [4] * 4


@given(
    process=st.sampled_from(["constant", "poisson", "gamma", "burst", "ramp"]),
    rate=st.floats(0.01, 1000),
    burstiness=st.floats(0.05, 50),
    size=st.integers(1, 100),
    to_rate=st.floats(0, 1000),
    seconds=st.floats(0.001, 100),
    most=st.integers(0, 500),
)
def test_bounds_hold_and_times_ascend(
    process: str, rate: float, burstiness: float, size: int, to_rate: float, seconds: float, most: int
) -> None:
    arrivals = Arrivals(process=process, rate=rate, burstiness=burstiness, size=size, to_rate=to_rate)  # type: ignore[arg-type]
    times = arrivals.due(seconds, most, np.random.default_rng(0))
    again = arrivals.due(seconds, most, np.random.default_rng(0))
    assert len(times) <= most
    assert ((times >= 0) & (times < seconds)).all()
    assert (np.diff(times) >= 0).all()
    assert (times == again).all()


def test_lengths_as_written() -> None:
    random = np.random.default_rng(SEEDED)
    assert set(length("512").draw(100, random)) == {512}
    uniform = length("10..19").draw(20_000, random)
    assert stats.chisquare(np.bincount(uniform)[10:20]).pvalue > 0.01
    normal = length("1000~50").draw(20_000, random)
    assert (normal.mean(), normal.std()) == (pytest.approx(1000, abs=2), pytest.approx(50, rel=0.03))
    assert length("5~50").draw(1000, random).min() == 1


def test_a_mix_by_weight() -> None:
    prompt, answer = draw(mix("2000:300:0.7,100..500:50:0.3"), 20_000, np.random.default_rng(SEEDED))
    long = prompt == 2000
    assert long.mean() == pytest.approx(0.7, abs=0.015)
    assert set(answer[long]) == {300}
    assert set(answer[~long]) == {50}
    assert (prompt[~long].min(), prompt[~long].max()) == (100, 500)


@pytest.mark.parametrize("text", ["", "0", "x", "-5", "9..3", "1e9", "5..", "~4", "99999999999"])
def test_no_length(text: str) -> None:
    with pytest.raises(UsageError, match="length"):
        length(text)


@pytest.mark.parametrize("text", ["1", "1:2:0", "1:2:nan", "1:2:3:4", "1:2:inf", "1:2,"])
def test_no_mix(text: str) -> None:
    with pytest.raises(UsageError):
        mix(text)


@pytest.mark.parametrize("fields", [{"rate": 0.0}, {"rate": float("nan")}, {"rate": 5.0, "burstiness": 0.0}])
def test_no_process(fields: dict[str, float]) -> None:
    with pytest.raises(UsageError):
        Arrivals(process="gamma", **fields)
