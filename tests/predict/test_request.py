"""The time of many decode steps: the rule for long answers against the plain sum over every step."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasewise.model.architecture import Count
from phasewise.model.load import load
from phasewise.predict.request import ONE_BY_ONE, decode_time, request
from phasewise.predict.roofline import decode_floor
from published_models import on

CLOSE = 1e-9
"""A thousandth of the millionth that is promised."""


@pytest.mark.parametrize("prompt", [1, 2000, 500_000])
@pytest.mark.parametrize("answer", [ONE_BY_ONE + 1, ONE_BY_ONE + 2, 100_000, 1_000_000])
@pytest.mark.parametrize(
    "name", ["llama-3-8b", "gemma-2-9b", "deepseek-v4-flash", "falcon-mamba-7b", "jamba-1.5-mini", "llama-4-scout"]
)
def test_a_long_answer_takes_what_its_steps_take(name: str, answer: int, prompt: int) -> None:
    # In full, in windows, in compressed blocks, without any cache, mixed, and in chunks.
    model = load(name)
    roof = on(model, "h100-sxm")
    contexts = prompt + np.arange(1.0, answer)
    every = math.fsum(np.broadcast_to(decode_floor(model, roof, contexts), contexts.shape))
    assert request(model, roof, prompt, answer).total_s == pytest.approx(
        request(model, roof, prompt, 1).total_s + every, rel=CLOSE
    )


@given(
    prompt=st.integers(1, 10**6),
    answer=st.integers(2, 60_000),
    base=st.floats(1e-6, 1.0),
    slope=st.floats(0.0, 1e-6),
    window=st.integers(1, 10**6),
    chunk=st.integers(512, 10**5),
)
def test_any_piecewise_linear_step(
    prompt: int, answer: int, base: float, slope: float, window: int, chunk: int
) -> None:
    def step(context: Count) -> Count:
        grown = base + slope * context + 3 * slope * np.minimum(context, window) + slope * (context % chunk)
        return np.maximum(grown, 1.5 * base)

    every = math.fsum(np.asarray(step(prompt + np.arange(1.0, answer))))
    assert decode_time(step, prompt, answer) == pytest.approx(every, rel=CLOSE)


def test_hand_arithmetic() -> None:
    # Contexts 11, 12, 13 of 1 s + 0.1 s per token: 3 + 3.6; no step after one token.
    assert decode_time(lambda context: 1.0 + 0.1 * context, 10, 4) == pytest.approx(6.6)
    assert decode_time(lambda context: 1.0 + 0.1 * context, 10, 1) == 0.0
    # A step that does not look at its context, and a hundred million of them: n(n + 1)/2 for the other.
    assert decode_time(lambda context: 0.5, 10, 100_000_001) == pytest.approx(0.5e8, rel=1e-12)
    assert decode_time(lambda context: context, 0, 100_000_001) == pytest.approx(1e8 * (1e8 + 1) / 2, rel=1e-12)


@pytest.mark.parametrize("chunk", [1.0, 7.0, 64.0, 8192.0, 16384.0, 819_200.0])
def test_a_hundred_million_steps_look_at_few_contexts(chunk: float) -> None:
    looked: list[int] = []

    def step(context: Count) -> Count:
        looked.append(np.size(context))
        return 1.0 + 0.01 * (context % chunk) / chunk

    steps = 10**8
    whole, rest = divmod(steps, int(chunk))
    every = steps + 0.01 / chunk * (whole * chunk * (chunk - 1) / 2 + rest * (rest + 1) / 2)
    # Contexts 1 to 10^8 hold `whole` whole chunks and, of one more, tokens 1 to `rest`.
    assert decode_time(step, 0, steps + 1) == pytest.approx(every, rel=1e-5 if chunk < 1000 else CLOSE)
    assert sum(looked) < 5 * 10**6
    assert max(looked) < 2 * 10**6


def test_a_step_that_is_no_number_ends() -> None:
    assert math.isnan(decode_time(lambda context: context * math.nan, 10, 10**8))
