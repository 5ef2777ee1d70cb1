"""Which windows of a phase are measured."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from power_by_hand import series

from phasewise.judge.power.windows import LEAST_S, Span, chosen, covers, least, merged


def prefills(*at: tuple[float, float], tokens: int | None = 100) -> list[Span]:
    return [Span("prefill", begin, end, tokens) for begin, end in at]


def test_repeats_that_follow_each_other_become_one_window() -> None:
    (one,) = merged(prefills((0.0, 0.03), (0.035, 0.06), (0.10, 0.13)))
    assert (one.begin, one.end, one.spans, one.tokens) == (0.0, 0.13, 3, 300)
    assert one.busy_s == pytest.approx(0.03 + 0.025 + 0.03)


def test_what_lies_apart_stays_apart() -> None:
    assert len(merged(prefills((0.0, 0.3), (0.5, 0.8)))) == 2


def test_answers_with_a_prefill_between_them_stay_apart() -> None:
    answers = [Span("decode", 0.02, 1.0, 10), Span("decode", 1.03, 2.0, 10)]
    assert len(merged(answers, begins=[0.0, 1.01])) == 2
    assert len(merged(answers, begins=[0.02, 1.03])) == 1  # nothing began between them


def test_a_long_row_of_repeats_is_several_windows_so_that_it_has_a_scatter() -> None:
    found = merged(prefills(*((0.1 * i, 0.1 * i + 0.09) for i in range(60))))
    assert len(found) >= 5
    assert sum(window.spans for window in found) == 60
    assert min(window.end - window.begin for window in found[:-1]) >= 1.0


def test_requests_at_once_are_not_counted_twice_in_time() -> None:
    (one,) = merged(prefills((0.0, 1.0), (0.2, 0.8), (0.5, 1.5)))
    assert one.busy_s == pytest.approx(1.5)


def test_unknown_tokens_make_the_window_s_unknown() -> None:
    (one,) = merged([*prefills((0.0, 0.1)), Span("prefill", 0.1, 0.2, None)])
    assert one.tokens is None


@given(st.lists(st.tuples(st.floats(0, 20), st.floats(0.001, 2)), min_size=1, max_size=40))
def test_no_span_is_lost_and_no_time_is_made(spans: list[tuple[float, float]]) -> None:
    found = merged(prefills(*((begin, begin + length) for begin, length in spans)))
    assert sum(window.spans for window in found) == len(spans)
    for window in found:
        assert window.busy_s <= window.end - window.begin + 1e-9
    assert all(a.end <= b.begin for a, b in pairwise(found))


def test_short_windows_are_left_out_and_said() -> None:
    one = series(seconds=10, every=0.05, begin=0.0, watts=lambda t: 100)
    found = chosen(merged(prefills((1.0, 1.15), (2.0, 2.5))), least(one.every_s), lambda window: True)
    assert [window.begin for window in found.windows] == [2.0]
    assert found.left_out == "1 of 2 windows are not judged: 1 shorter than 0.2 s."


def test_slow_readings_need_longer_windows() -> None:
    assert least(0.05) == LEAST_S
    assert least(1.0) == 3.0
    assert least(0.1, averages_s=1.0) == 1.3


def test_a_window_beyond_the_readings_or_over_a_hole_is_not_covered() -> None:
    one = series(seconds=10, every=0.1, begin=0.0, watts=lambda t: 100)
    assert covers(one, 1.0, 2.0)
    assert not covers(one, -1.0, 2.0)
    assert not covers(one, 9.0, 10.5)
    holed = one._replace(
        time=one.time[(one.time < 4) | (one.time > 6)],
        **{name: getattr(one, name)[(one.time < 4) | (one.time > 6)] for name in one._fields[2:]},
    )
    assert not covers(holed, 3.0, 7.0)
    assert covers(holed, 6.5, 7.5)
