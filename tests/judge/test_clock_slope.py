"""How time follows the clock: planted slopes come back, and what cannot be told is not told."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasewise.judge.clock_slope import Clocked, slopes
from phasewise.record.observation import Phase
from phasewise.record.power_sweep import Drawn, Slope
from phasewise.record.quantity import measured


def clocked(seconds: float, mhz: float, shape: int = 1, phase: Phase = "prefill", **held: float) -> Clocked:
    drawn = Drawn(
        readings=3,
        watts=None,
        highest_w=None,
        sm=measured(mhz * 1e6, "Hz", "planted"),
        capped=held.get("capped", 0.0),
        hot=held.get("hot", 0.0),
        slowed=held.get("slowed", 0.0),
        limit_w=None,
    )
    return Clocked(phase, (shape,), seconds, drawn)


def of(requests: list[Clocked], phase: str = "prefill") -> Slope:
    return {one.phase: one for one in slopes(requests)}[phase]


@given(
    slope=st.floats(-0.2, 1.3),
    base=st.lists(st.floats(1e-3, 10.0), min_size=1, max_size=4),
    seed=st.integers(0, 1000),
)
def test_a_planted_slope_comes_back_whatever_the_lengths(slope: float, base: list[float], seed: int) -> None:
    rng = random.Random(seed)
    requests = []
    for shape, alone in enumerate(base):
        clocks = (1980, *(rng.uniform(900, 1980) for _ in range(8)), 900)
        requests += [clocked(alone * (1980 / mhz) ** slope, mhz, shape) for mhz in clocks]
    found = of(requests)
    assert found.slope is not None
    assert found.slope.value == pytest.approx(slope, abs=1e-6)


def test_the_interval_covers_the_truth_as_often_as_it_says() -> None:
    rng = random.Random(7)
    covered = 0
    for _ in range(400):
        requests = []
        for _ in range(20):
            mhz = rng.uniform(1200, 1980)
            requests.append(clocked((1980 / mhz) * math.exp(rng.gauss(0, 0.05)), mhz))
        slope = of(requests).slope
        assert slope is not None
        assert slope.low is not None
        assert slope.high is not None
        covered += slope.low <= 1.0 <= slope.high
    assert 0.92 <= covered / 400 <= 0.98


def test_one_shape_is_an_ordinary_line_through_logarithms() -> None:
    """Against numpy.polyfit, which shares no code with it."""
    rng = random.Random(3)
    pairs = [(rng.uniform(1000, 1980), rng.uniform(0.1, 0.2)) for _ in range(30)]
    found = of([clocked(seconds, mhz) for mhz, seconds in pairs])
    expected = np.polyfit([-math.log(mhz) for mhz, _ in pairs], [math.log(s) for _, s in pairs], 1)[0]
    assert found.slope is not None
    assert found.slope.value == pytest.approx(expected)


@pytest.mark.parametrize(("slope", "follows"), [(1.0, "clock"), (0.0, "memory"), (0.5, "both")])
def test_what_a_slope_says(slope: float, follows: str) -> None:
    requests = [clocked((1980 / mhz) ** slope, mhz) for mhz in range(1200, 1980, 40)]
    assert of(requests).follows == follows


def test_a_clock_that_stood_still_says_nothing() -> None:
    requests = [clocked(1.0 + i / 10, 1980 - i) for i in range(20)]
    found = of(requests)
    assert found.follows == "too little spread"
    assert found.slope is None
    assert "too little for a slope" in found.text


def test_a_clock_that_moved_only_between_lengths_says_nothing() -> None:
    """One length at each clock: what the clock did cannot be told from what the length did."""
    requests = [clocked(1.0, 1980, 1) for _ in range(10)] + [clocked(9.0, 1200, 2) for _ in range(10)]
    assert of(requests).follows == "too little spread"


def test_few_requests_or_none() -> None:
    assert of([clocked(1.0, 1980 - 200 * i) for i in range(3)]).follows == "not measured"
    assert of([]).follows == "not measured"
    assert of([], "decode").samples == 0


def test_scatter_that_hides_the_slope_is_undecided() -> None:
    rng = random.Random(1)
    requests = [clocked(math.exp(rng.gauss(0, 1)), mhz) for mhz in range(1200, 1980, 100)]
    assert of(requests).follows == "undecided"


def test_what_held_the_clock_down_is_named() -> None:
    requests = [clocked(1980 / mhz, mhz, hot=1.0 if mhz < 1500 else 0.0) for mhz in range(1200, 1980, 40)]
    assert of(requests).moved == ("heat",)


def test_the_memory_gap_measurement() -> None:
    """notes/papers.md, MemoryGap on a GH100: one decode run sat at 1,605 instead of 1,980 MHz and its throughput stayed
    on the curve of the others, which is a slope of 0."""
    requests = [clocked(0.0372, mhz, phase="decode") for mhz in (1980, 1980, 1980, 1980, 1605, 1605, 1605, 1605)]
    assert of(requests, "decode").follows == "memory"
