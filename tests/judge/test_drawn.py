"""Readings in spans: against a search that looks at every reading."""

from __future__ import annotations

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasewise.hardware.power.base import Reading
from phasewise.judge.drawn import Beside, Span

_SPANS = st.lists(st.tuples(st.floats(0, 10), st.floats(0, 3)), min_size=1, max_size=6)
_READINGS = st.lists(
    st.tuples(st.floats(0, 12), st.integers(0, 1), st.none() | st.floats(10, 700)),
    min_size=1,
    max_size=60,
    unique_by=lambda one: one[:2],
)


@given(readings=_READINGS, spans=_SPANS, slack=st.sampled_from([0.0, 0.05]))
def test_each_reading_in_any_span_counts_once(
    readings: list[tuple[float, int, float | None]], spans: list[tuple[float, float]], slack: float
) -> None:
    given = [Reading(at=at, device=device, watts=watts, sm_hz=1e9) for at, device, watts in readings]
    asked = [Span(begin, begin + length) for begin, length in spans]
    found = Beside(given, [0, 1]).drawn(asked, slack)
    inside = [one for one in given if any(s.begin - slack <= one.at <= s.end + slack for s in asked)]
    per = [[one for one in inside if one.device == device] for device in (0, 1)]
    assert found.readings == min(len(one) for one in per)
    watts = [[one.watts for one in device if one.watts is not None] for device in per]
    if all(watts):
        assert found.watts is not None
        assert found.watts.value == pytest.approx(sum(map(statistics.fmean, watts)))
    else:
        assert found.watts is None


def test_watts_add_up_over_cards_and_the_highest_card_is_held_against_the_limit() -> None:
    given = [
        Reading(at=float(t), device=d, watts=w, limit_w=700.0) for t in range(10) for d, w in ((0, 300.0), (1, 650.0))
    ]
    found = Beside(given, [0, 1]).drawn([Span(0.0, 9.0)])
    assert found.watts is not None
    assert found.watts.value == 950.0
    assert found.highest_w == 650.0
    assert found.limit_w == (700.0, 700.0)
    assert found.capped is None
    assert found.sm is None


def test_one_reading_in_a_hundred_is_not_the_most_that_a_card_draws() -> None:
    given = [Reading(at=float(t), device=0, watts=690.0 if t == 50 else 300.0) for t in range(100)]
    assert Beside(given, [0]).drawn([Span(0.0, 99.0)]).highest_w == 300.0


def test_what_no_card_draws_is_left_out() -> None:
    """Drivers write 2**32 - 1 mW where they have no answer."""
    given = [Reading(at=float(t), device=0, watts=4_294_967.295 if t == 3 else 300.0) for t in range(10)]
    found = Beside(given, [0]).drawn([Span(0.0, 9.0)])
    assert found.watts is not None
    assert found.watts.value == 300.0
    assert found.highest_w == 300.0


def test_no_device_and_no_reading() -> None:
    assert Beside([], []).drawn([Span(0.0, 1.0)]).readings == 0
    assert Beside([], [0]).drawn([Span(0.0, 1.0)]).watts is None
