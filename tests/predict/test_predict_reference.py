"""The reference table of the design, to the last digit it shows, against arithmetic done here by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasewise.model import work
from phasewise.model.architecture import Attention, Pass
from phasewise.predict import napkin
from phasewise.predict.predict import decode_step, predict, prefill_step
from phasewise.predict.roofline import attention_crossover, decode_floor, floor, prefill_floor, ridge_tokens, roofs
from phasewise.units import show
from reference import h100, llama_3_8b, reference_roof

MODEL, ROOF = llama_3_8b(), reference_roof()
P, EMBEDDING, LAYERS = 8_030_261_248, 525_336_576, 6_979_588_096
PEAK, BANDWIDTH, KV = 989e12, 3.35e12, 131_072


def test_counts_of_the_reference_model() -> None:
    assert MODEL.parameters == P
    assert MODEL.architecture.non_embedding == LAYERS == P - 2 * EMBEDDING
    assert MODEL.kv_bytes_per_token == KV == 32 * 8 * 128 * 2 * 2


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (napkin.prefill(MODEL, ROOF, 2000).compute_s, "32.5 ms"),
        (napkin.prefill(MODEL, ROOF, 2000).memory_s, "4.79 ms"),
        (napkin.decode(MODEL, ROOF, 2000).memory_s, "4.87 ms"),
        (napkin.decode(MODEL, ROOF, 2000).compute_s, "16.2 µs"),
        (napkin.time(napkin.decode(MODEL, ROOF, 2000, 64)), "9.80 ms"),
        (prefill_step(MODEL, ROOF, 2000).compute_s, "29.3 ms"),
        (prefill_step(MODEL, ROOF, 2000).weight_bytes / BANDWIDTH, "4.48 ms"),
        (prefill_step(MODEL, ROOF, 2000).memory_s, "4.56 ms"),
        (decode_step(MODEL, ROOF, 2000).memory_s, "4.56 ms"),
        (decode_step(MODEL, ROOF, 2000).compute_s, "16.2 µs"),
        (float(decode_floor(MODEL, ROOF, 2000.0, 64.0)), "9.49 ms"),
    ],
)
def test_reference_times(value: float, shown: str) -> None:
    assert show(value, "s") == shown


def test_reference_ratios() -> None:
    found = predict(MODEL, ROOF)
    rows = {row.batch: row for row in found.batch}
    assert f"{rows[64].throughput_gain:.1f} {rows[64].napkin_throughput_gain:.1f}" == "30.7 31.8"
    short = {row.batch: row for row in predict(MODEL, ROOF, prompt=300).batch}
    assert f"{short[64].throughput_gain:.0f} {short[64].napkin_throughput_gain:.0f}" == "55 55"
    lengths = {row.tokens: row for row in found.lengths}
    assert f"{100 * lengths[2000].attention_share:.1f} {100 * lengths[32000].attention_share:.1f}" == "3.6 37.5"
    assert round(found.attention_crossover_tokens or 0) == 53_250
    assert found.prefill_batch["4"] == pytest.approx(4, rel=0.01)
    assert found.request.decode_share > 0.95
    assert napkin.decode(MODEL, ROOF, 2000).memory_s / napkin.decode(MODEL, ROOF, 2000).compute_s == pytest.approx(
        300, rel=0.01
    )
    assert ridge_tokens(MODEL, ROOF) == pytest.approx(PEAK / BANDWIDTH)


def test_floor_is_the_sum_over_operations_by_hand() -> None:
    n = 2000.0
    layers = 2 * LAYERS * n / PEAK
    attention = max(32 * 4 * 32 * 128 * n * n / 2 / PEAK, KV * n / BANDWIDTH)
    head = max(2 * EMBEDDING / PEAK, 2 * EMBEDDING / BANDWIDTH)
    assert float(prefill_floor(MODEL, ROOF, n)) == pytest.approx(layers + attention + head, rel=1e-9)


def test_request_is_ttft_and_each_step_at_its_own_context() -> None:
    found = predict(MODEL, ROOF, prompt=100, answer=5)
    steps = sum(float(decode_floor(MODEL, ROOF, float(100 + k))) for k in range(1, 5))
    assert found.request.total_s == pytest.approx(found.prefill.time_s + steps, rel=1e-12)


def test_prefix_hit_leaves_the_square_difference_of_attention() -> None:
    whole, cached = 4096.0, 1024.0
    got = float(work.prefill(MODEL, whole, cached=cached).attention_flops)
    assert got == pytest.approx(32 * 2 * 32 * 128 * (whole**2 - cached**2))


def test_windows_bound_attention_by_hand() -> None:
    import msgspec

    block = MODEL.architecture.blocks[0]
    assert isinstance(block.mixer, Attention)
    mixer = msgspec.structs.replace(block.mixer, window=512)
    assert float(mixer.pairs(Pass(2000.0))) == pytest.approx(2000 * 512 - 512 * 512 / 2)
    assert float(mixer.pairs(Pass(100.0))) == pytest.approx(100 * 100 / 2)
    shape = msgspec.structs.replace(MODEL.architecture, blocks=(msgspec.structs.replace(block, mixer=mixer),))
    windowed = msgspec.structs.replace(MODEL, architecture=shape)
    assert float(work.decode(windowed, 5000.0).kv_bytes) == 512 * KV
    assert attention_crossover(windowed) is None


def test_devices_add_up_and_stated_ceilings_come_first() -> None:
    import msgspec

    four = roofs(MODEL, msgspec.structs.replace(h100(), devices=4))[0]
    assert four.compute.value == 4 * PEAK
    assert four.bandwidth.value == 4 * BANDWIDTH


tokens = st.floats(1, 1e6)
batches = st.integers(1, 512).map(float)


@given(tokens, tokens, batches)
def test_work_grows_with_every_dimension(n: float, more: float, batch: float) -> None:
    for step in (work.prefill, work.decode):
        small, large = step(MODEL, n, batch), step(MODEL, n + more, batch + 1)
        assert float(large.flops) > float(small.flops)
        assert float(large.bytes) >= float(small.bytes)


@given(tokens, batches, st.floats(1.0, 100.0))
def test_more_bandwidth_never_slows(n: float, batch: float, factor: float) -> None:
    import msgspec

    wider = msgspec.structs.replace(
        ROOF, bandwidth=msgspec.structs.replace(ROOF.bandwidth, value=ROOF.bandwidth.value * factor)
    )
    for step in (work.prefill(MODEL, n, batch), work.decode(MODEL, n, batch)):
        assert float(floor(step, wider)) <= float(floor(step, ROOF)) * (1 + 1e-12)


@given(tokens, batches)
def test_counted_decode_bytes_never_exceed_the_napkin(n: float, batch: float) -> None:
    assert decode_step(MODEL, ROOF, int(n), int(batch)).bytes <= napkin.decode(MODEL, ROOF, int(n), int(batch)).bytes


def test_a_grid_is_counted_in_one_call() -> None:
    import numpy as np

    lengths, sizes = np.meshgrid(np.array([128.0, 2000.0]), np.array([1.0, 64.0]))
    grid = np.asarray(decode_floor(MODEL, ROOF, lengths, sizes))
    assert grid.shape == (2, 2)
    assert grid[1, 1] == pytest.approx(float(decode_floor(MODEL, ROOF, 2000.0, 64.0)))
