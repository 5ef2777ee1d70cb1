"""What prompts cost running decodes, from arrivals by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sweep_streams import stream

from phasewise.isolate.mix import traffic
from phasewise.isolate.stalls import Seen, chunk, interference, seen
from phasewise.record.quantity import measured

STEP = 0.010


def disturbed(slow: list[float], *, own: bool, quiet: int = 30, decodes: int = 3) -> tuple[list, list]:
    """Decodes with ``quiet`` steps, then a prompt whose steps take ``slow`` more each, then quiet steps again.

    With ``own`` the prompt has one step of its own before the next token of the decodes, which ``slow`` (one) is.
    """
    times = [1.0 + STEP * i for i in range(quiet)]
    sent = times[-1] + 0.2 * STEP
    for extra in slow:
        times.append(times[-1] + STEP + extra)
    first = times[-1] - STEP if own else times[-1]
    times += [times[-1] + STEP * i for i in range(1, quiet)]
    prompt = stream([first], key=99, prompt=500, sent=sent)
    return [stream(times, key=k) for k in range(decodes)], [prompt]


@pytest.mark.parametrize("own", [True, False])
def test_one_slow_step_by_hand(own: bool) -> None:
    (found,) = seen(*disturbed([0.040], own=own))
    assert found.stall == pytest.approx(0.040, abs=1e-6)
    assert found.slow == 1
    assert found.slowest == pytest.approx(0.050, abs=1e-6)
    assert found.step == pytest.approx(STEP, abs=1e-6)
    assert found.shared is not own


def test_chunks_by_hand() -> None:
    (found,) = seen(*disturbed([0.020, 0.020, 0.020, 0.007], own=False))
    assert found.stall == pytest.approx(0.067, abs=1e-6)
    assert found.slow == 4
    assert found.tokens == 500


def test_a_prompt_outside_the_window_is_left_out() -> None:
    decodes, prompts = disturbed([0.04], own=False)
    early = stream([1.02], key=98, prompt=500, sent=1.01)
    late = stream([9.0], key=97, prompt=500, sent=8.9)
    assert len(seen(decodes, [early, *prompts, late])) == 1


def one(tokens: int, slow: int, stall: float) -> Seen:
    return Seen(tokens, STEP, stall, slow, STEP + stall, stall, True)


@given(st.integers(16, 8192), st.lists(st.integers(1, 20_000), min_size=1, max_size=6))
def test_the_chunk_lies_in_its_interval(size: int, lengths: list[int]) -> None:
    found = chunk([one(n, math.ceil(n / size), 0.1) for n in lengths])
    assert found is not None
    if max(lengths) <= size:
        assert found.most is None
        assert found.least == max(lengths)
    else:
        assert found.most is not None
        assert found.least <= size <= found.most


def test_counts_that_agree_on_no_chunk_give_none() -> None:
    assert chunk([one(1000, 4, 0.1), one(4000, 4, 0.1)]) is None
    assert chunk([one(1000, 0, 0.0)]) is None
    assert chunk([]) is None


@pytest.mark.parametrize("size", [10**6, 512])
def test_the_cost_of_a_chunk_comes_back(size: int) -> None:
    cost = 5e-3, 50e-6, 1e-9
    lengths = (64, 256, 1024, 4096)
    found = interference(
        [
            one(n, math.ceil(n / size), cost[0] * math.ceil(n / size) + cost[1] * n + cost[2] * n * n)
            for n in lengths
            for _ in range(2)
        ]
    )
    assert found is not None
    assert found.per_step.value == pytest.approx(cost[0], rel=0.02)
    assert found.per_token.value == pytest.approx(cost[1], rel=0.02)
    assert found.per_token2.value == pytest.approx(cost[2], rel=0.05)
    # The last 512 tokens of 4,096 read all that came before: b·512 + c·(4096² - 3584²), by hand.
    assert found.of_chunk(512, 4096) == pytest.approx(5e-3 + 50e-6 * 512 + 1e-9 * 3_932_160, rel=0.02)


def test_nothing_stalled_fits_nothing() -> None:
    assert interference([one(100, 0, 0.0), one(1000, 0, -1e-5)]) is None
    assert interference([one(100, 1, 0.01)] * 3) is None


def test_traffic_by_hand() -> None:
    decodes = [stream([1.0 + STEP * i for i in range(400)], key=k) for k in range(2)]
    prompts = [stream([2.0 + 0.2 * i + 0.03], key=10 + i, sent=2.0 + 0.2 * i, prompt=100) for i in range(9)]
    found = traffic(decodes, prompts, measured(0.02, "s", "by hand"))
    assert found is not None
    assert found.rate.value == pytest.approx(5.0)
    assert found.load == pytest.approx(0.1)
    assert found.ttft.value == pytest.approx(0.03)
    assert found.tpot.value == pytest.approx(STEP)
    assert found.step_alone.value == pytest.approx(STEP)
    assert found.arrivals[:2] == pytest.approx((0.0, 0.2))
    assert traffic(decodes, prompts[:3], measured(0.02, "s", "by hand")) is None
