"""Histograms and the steps of a log, against brute force over its requests."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasewise.observe.logs import histogram
from phasewise.observe.logs.histogram import Histogram, Tally
from phasewise.observe.logs.kept import Kept
from phasewise.observe.logs.lengths import Lengths, together, total
from phasewise.observe.logs.rows import Rows

REQUESTS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), min_size=1, max_size=40)


def lengths(requests: list[tuple[int, int]]) -> Lengths:
    prompt, answer = (np.array(column, np.int64) for column in zip(*requests, strict=True))
    kept = Kept()
    kept.add(Rows(prompt, answer, None, None))
    return Lengths(*(tally.histogram() for tally in kept._tallies))


def tally(numbers: list[int]) -> Histogram:
    found = Tally()
    found.add(np.array(numbers, np.int64))
    return found.histogram()


@given(REQUESTS)
def test_every_decode_step_is_counted_at_its_context(requests: list[tuple[int, int]]) -> None:
    expected = Counter(p + k for p, a in requests for k in range(1, a))
    found = {int(c): int(n) for at, count in lengths(requests).decodes() for c, n in zip(at, count, strict=True)}
    assert found == dict(expected)


@given(REQUESTS)
def test_every_prompt_with_tokens_is_one_prefill(requests: list[tuple[int, int]]) -> None:
    expected = Counter(p for p, _ in requests if p)
    found = {int(c): int(n) for at, count in lengths(requests).prefills() for c, n in zip(at, count, strict=True)}
    assert found == dict(expected)


@given(REQUESTS, st.integers(1, 80))
def test_tokens_beyond_a_context(requests: list[tuple[int, int]], context: int) -> None:
    # The i-th token of a request, prompt and answer alike, is beyond when i > context.
    expected = sum(i > context for p, a in requests for i in range(1, p + a + 1))
    assert lengths(requests).beyond(context) == (expected, sum(p + a for p, a in requests))


@given(REQUESTS, REQUESTS)
def test_several_logs_are_one(first: list[tuple[int, int]], second: list[tuple[int, int]]) -> None:
    apart, at_once = together([lengths(first), lengths(second)]), lengths(first + second)
    for one, other in zip(apart, at_once, strict=True):
        assert one.values.tolist() == other.values.tolist()
        assert one.counts.tolist() == other.counts.tolist()


@given(st.lists(st.integers(0, 50), min_size=1, max_size=60))
def test_histogram_against_numpy(numbers: list[int]) -> None:
    found, array = tally(numbers), np.array(numbers)
    assert (found.seen, found.total, found.largest) == (len(numbers), sum(numbers), max(numbers))
    for percent in (1, 50, 90, 99, 100):
        assert found.percentile(percent) == np.percentile(array, percent, method="inverted_cdf")
    assert found.above(25) == np.maximum(array - 25, 0).sum()
    assert found.count(numbers[0]) == numbers.count(numbers[0])
    assert found.below(np.arange(60)).tolist() == [(array < n).sum() for n in range(60)]


def test_percentiles_do_not_suffer_from_binary_fractions() -> None:
    # 0.07 × 100 is 7.000000000000001 in floating point.
    assert tally(list(range(1, 101))).percentile(7) == 7


def test_folding_while_numbers_come_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(histogram, "_PENDING", 10)
    numbers = np.random.default_rng(5).integers(0, 30, (50, 20))
    found = Tally()
    for part in numbers:
        found.add(part)
    values, counts = np.unique(numbers, return_counts=True)
    assert found.histogram().values.tolist() == values.tolist()
    assert found.histogram().counts.tolist() == counts.tolist()


def test_steps_come_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    from phasewise.observe.logs import lengths as module

    monkeypatch.setattr(module, "CHUNK", 7)
    steps = list(lengths([(3, 20), (40, 5)]).decodes())
    assert len(steps) > 3
    assert total(steps, lambda context: context) == sum(range(4, 23)) + sum(range(41, 45))


def test_a_cost_that_does_not_depend_on_where_counts_every_step() -> None:
    assert total(lengths([(3, 20), (40, 5)]).decodes(), lambda _: 2.0) == 2.0 * (19 + 4)


def test_a_log_without_answers_decodes_nothing() -> None:
    assert list(lengths([(5, 0), (7, 0)]).decodes()) == []
