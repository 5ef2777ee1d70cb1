"""Counting different ids: exact while they fit, within its stated error when they do not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasewise.observe.logs import distinct
from phasewise.observe.logs.distinct import Distinct


@given(st.lists(st.lists(st.integers(0, 2**64 - 2), max_size=30), max_size=10))
def test_few_ids_are_counted_exactly(parts: list[list[int]]) -> None:
    found = Distinct()
    for part in parts:
        found.add(np.array(part, np.uint64))
    assert found.estimate() == (len({one for part in parts for one in part}), 0)
    assert found.seen == sum(map(len, parts))


@pytest.mark.parametrize("step", [1, 512, 2**40 + 1])
def test_many_ids_are_estimated_within_the_stated_error(monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    monkeypatch.setattr(distinct, "KEPT", 4096)
    found, ids = Distinct(), np.arange(200_000, dtype=np.uint64) * np.uint64(step)
    for part in np.split(np.concatenate([ids, ids[::2]]), 50):
        found.add(part)
    count, error = found.estimate()
    assert 0 < error < 0.03 * 200_000
    assert abs(count - 200_000) < 4 * error
    assert found.seen == 300_000
