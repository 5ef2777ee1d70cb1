"""The plane and its breaks, from planted steps."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phasewise.isolate.plane import Sample, fit

A, B, C = 8e-3, 1e-4, 5e-8
BATCHES = (1, 2, 4, 8, 16, 32, 64)


def samples(extra=lambda batch: 0.0, *, noise: float = 1e-3, seed: int = 1, batches=BATCHES, windows: int = 3) -> list:
    rng = random.Random(seed)
    found = []
    for context in (60.0, 1060.0):
        for batch in batches if context < 100 else (batches[0], batches[len(batches) // 2], batches[-1]):
            for _ in range(windows):
                step = A + B * batch + C * batch * context + extra(batch)
                found.append(Sample(batch, batch * context, step * (1 + rng.gauss(0, noise)), 60))
    return found


def test_the_plane_comes_back() -> None:
    found = fit(samples())
    assert found is not None
    assert found.broken is None
    for quantity, planted in ((found.base, A), (found.per_request, B), (found.per_context_token, C)):
        assert quantity.value == pytest.approx(planted, rel=0.03)
        assert quantity.low is not None
        assert quantity.high is not None
        assert quantity.low <= planted <= quantity.high
    assert found.at(10, 5000) == pytest.approx(A + 10 * B + 5000 * C, rel=0.01)


def test_a_jump_is_named_between_its_batches() -> None:
    found = fit(samples(lambda batch: 6e-3 if batch > 16 else 0.0))
    assert found is not None
    assert found.broken is not None
    assert (found.broken.kind, found.broken.after, found.broken.before) == ("jump", 16, 32)
    assert found.broken.extra.value == pytest.approx(6e-3, rel=0.03)
    assert found.broken.share == pytest.approx(6e-3 / (A + 16 * B + 16 * 60 * C), rel=0.03)
    assert found.per_request.value == pytest.approx(B, rel=0.1)
    assert found.at(64, 64 * 60) == pytest.approx(A + 64 * B + 64 * 60 * C + 6e-3, rel=0.01)


def test_a_knee_is_a_knee() -> None:
    found = fit(samples(lambda batch: 4e-4 * max(0, batch - 16)))
    assert found is not None
    assert found.broken is not None
    assert (found.broken.kind, found.broken.after) == ("knee", 16)
    assert found.broken.extra.value == pytest.approx(4e-4, rel=0.03)
    assert found.broken.share == pytest.approx((4e-4 + B + 60 * C) / (B + 60 * C), rel=0.1)


def test_a_jump_too_small_to_matter_is_not_told() -> None:
    found = fit(samples(lambda batch: 3e-4 if batch > 16 else 0.0, noise=1e-4))
    assert found is not None
    assert found.broken is None


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([1e-4, 1e-3, 1e-2, 0.05]))
def test_noise_is_no_break(seed: int, noise: float) -> None:
    found = fit(samples(noise=noise, seed=seed))
    assert found is not None
    assert found.broken is None


def test_single_windows_do_not_make_a_break() -> None:
    # One window each knows no scatter: what looks like a jump may be a busy machine.
    found = fit(samples(lambda batch: 6e-3 if batch > 16 else 0.0, windows=1))
    assert found is not None
    assert found.broken is None


def test_one_batch_tells_nothing_of_requests() -> None:
    found = fit([Sample(1, context, A + B + C * context, 60) for context in (50.0, 50.0, 1000.0, 1000.0)])
    assert found is not None
    assert found.per_context_token.value == pytest.approx(C, rel=0.05)
    assert found.per_request.high is None
    assert fit([Sample(1, 50.0, A, 60)]) is None
    assert fit([]) is None
    assert not math.isnan(found.residual)
