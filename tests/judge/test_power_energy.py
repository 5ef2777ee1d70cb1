"""Energy of a window: against integrals known by hand, and counters that wrap and are set back."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from power_by_hand import series

from phasewise.judge.power import energy


def test_the_trapezoid_is_exact_for_a_ramp_and_stands_for_the_whole_window() -> None:
    ramp = series(seconds=10, every=0.5, watts=lambda t: 100 + 20 * t)
    # Readings inside 1.3 s to 7.9 s lie from 1.5 to 7.5 s: their mean is that of the ramp's middle, 4.5 s.
    assert energy.integral(ramp.time, ramp.watts, 101.3, 107.9) == pytest.approx((100 + 20 * 4.5) * 6.6)


def test_a_sine_is_met_within_the_error_of_the_trapezoid() -> None:
    wave = series(seconds=10, every=0.05, watts=lambda t: 300 + 100 * math.sin(2 * math.pi * t))
    exact = 300 * 2.5 + 100 / (2 * math.pi) * (1 - math.cos(2 * math.pi * 2.5))
    found = energy.integral(wave.time, wave.watts, 101.999, 104.501)
    assert found is not None
    # h²/12 · length · max |f''| is the trapezoid's bound; 2 ms of window lie outside the readings.
    assert abs(found - exact) <= 0.05**2 / 12 * 2.5 * 100 * (2 * math.pi) ** 2 + 0.002 * 400


def test_what_lies_at_the_edges_is_another_phase_s() -> None:
    """600 W until 1 s, then 250 W: no reading across the edge gets into the window that begins there."""
    one = series(
        seconds=3,
        every=0.3,
        watts=lambda t: 600 if t < 1 else 250,
        joules=lambda t: 600 * min(t, 1) + 250 * max(0.0, t - 1),
    )
    counter = energy.counter(one)
    assert counter is not None
    assert energy.integral(one.time, one.watts, 101.0, 103.0) == pytest.approx(500)
    assert counter.between(101.0, 103.0) == pytest.approx(500)


def test_nothing_is_told_of_a_window_with_fewer_than_two_readings() -> None:
    flat = series(seconds=2, watts=lambda t: 100)
    assert energy.integral(flat.time, flat.watts, 101.0, 101.04) is None
    assert energy.integral(flat.time, flat.watts, 110.0, 111.0) is None
    assert energy.integral(flat.time, flat.watts, 101.0, 101.0) is None


@given(
    watts=st.lists(st.floats(5.0, 700.0), min_size=4, max_size=60),
    wraps_at=st.floats(2_000.0, 100_000.0),
    start=st.floats(0.0, 1.0),
    window=st.tuples(st.integers(0, 60), st.integers(0, 60)),
)
def test_a_counter_that_wraps_counts_as_one_that_does_not(
    watts: list[float], wraps_at: float, start: float, window: tuple[int, int]
) -> None:
    true = np.concatenate(([0.0], np.cumsum(watts)))  # one second apart
    offset = start * wraps_at
    shown = [float((offset + value) % wraps_at) for value in true]
    one = series(seconds=len(watts), every=1.0, joules=lambda t: shown[round(t)], wraps_at=wraps_at)
    counter = energy.counter(one)
    assert counter is not None
    assert not counter.resets
    first, last = sorted(min(edge, len(watts)) for edge in window)
    counted = counter.between(100.0 + first, 100.0 + last)
    if last - first < 1:
        assert counted is None
    else:
        assert counted == pytest.approx(true[last] - true[first], rel=1e-6, abs=1e-6 * wraps_at)


@given(
    watts=st.lists(st.floats(5.0, 700.0), min_size=4, max_size=40),
    at=st.integers(1, 38),
    kept=st.floats(0.0, 0.9),
)
def test_a_counter_that_was_set_back_says_nothing_of_that_time_and_all_of_the_rest(
    watts: list[float], at: int, kept: float
) -> None:
    at = min(at, len(watts) - 1)
    true = np.concatenate(([0.0], np.cumsum(watts)))
    shown = true.copy() + 1e6
    shown[at + 1 :] = true[at + 1 :] - true[at + 1] + kept  # a driver that was loaded again counts from about zero
    one = series(seconds=len(watts), every=1.0, joules=lambda t: float(shown[round(t)]))
    counter = energy.counter(one)
    assert counter is not None
    assert counter.resets == ((100.0 + at, 101.0 + at),)
    assert counter.between(100.0, 100.0 + len(watts)) is None
    assert counter.between(100.0 + at - 0.5, 100.5 + at) is None
    assert counter.between(100.0, 100.0 + at) == (pytest.approx(true[at]) if at > 0 else None)
    if at + 2 < len(watts):
        assert counter.between(101.0 + at, 100.0 + len(watts)) == pytest.approx(true[-1] - true[at + 1])


def test_a_fall_that_would_need_a_megawatt_is_a_reset_though_the_counter_can_wrap() -> None:
    one = series(seconds=10, every=1.0, joules=lambda t: 100 * t if t < 5 else 100 * (t - 5), wraps_at=262_143.0)
    counter = energy.counter(one)
    assert counter is not None
    assert counter.wraps == 0
    assert len(counter.resets) == 1


def test_a_counter_that_stands_counts_nothing_and_is_not_taken_for_zero_joules() -> None:
    assert energy.counter(series(joules=lambda t: 5000.0)) is None
    late = energy.counter(series(joules=lambda t: 5000.0 + max(0.0, t - 5)))
    assert late is not None
    assert late.between(101.0, 104.0) is None


def test_values_that_a_driver_holds_are_counted_where_they_change() -> None:
    """A counter that is renewed every 0.3 s and read every 0.05 s: 200 W, whatever the window."""
    held = series(seconds=10, every=0.05, joules=lambda t: 200 * 0.3 * math.floor(t / 0.3 + 1e-9))
    counter = energy.counter(held)
    assert counter is not None
    assert counter.between(101.13, 104.47) == pytest.approx(200 * 3.34, rel=0.02)


def test_watts_of_a_mere_counter_are_its_steps() -> None:
    one = series(seconds=10, every=0.5, joules=lambda t: 65 * t, kind="cpu")
    drawn = energy.watts(one, energy.counter(one))
    assert drawn.watts == pytest.approx(np.full(20, 65.0))
    assert drawn.time == pytest.approx(100.25 + 0.5 * np.arange(20))
