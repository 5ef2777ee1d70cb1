"""Messages, pipelines and steps, against arithmetic by hand."""

from __future__ import annotations

import numpy as np
import pytest
from parallel_models import deepseek, mixtral, spread, without_latency

from phasewise.predict.parallel.link import NVLINK4
from phasewise.predict.parallel.spread import Spread
from phasewise.predict.roofline import decode_floor, floor, prefill_floor

RATE, BANDWIDTH, PEAK = 450e9, 3.35e12, 989e12
D, V = 4096, 128256
AR4 = NVLINK4["all-reduce"][4]


def messages(one: Spread, batch: float = 1.0) -> dict[tuple[str, str], tuple[float, int, float]]:
    said = one.decode(2000.0, batch).collectives
    return {(m.kind, m.what): (m.times, m.devices, float(m.sent)) for m in said}


def test_tensor_parallelism_adds_up_twice_a_layer() -> None:
    assert messages(spread("llama-3-8b", tp=4), 16.0) == {
        ("all-reduce", "mixers"): (32, 4, 2 * 3 / 4 * 16 * D * 2),
        ("all-reduce", "MLPs"): (32, 4, 2 * 3 / 4 * 16 * D * 2),
        ("all-reduce", "embedding"): (1, 4, 2 * 3 / 4 * 16 * D * 2),
        ("all-gather", "logits"): (1, 4, 3 / 4 * 16 * V * 2),
    }


def test_replicated_tables_need_no_message() -> None:
    kept = messages(spread("llama-3-8b", tp=4, head="replicated"))
    assert set(kept) == {("all-reduce", "mixers"), ("all-reduce", "MLPs")}


def test_a_message_is_latency_and_bytes() -> None:
    one = spread("llama-3-8b", tp=4, head="replicated")
    step = one.decode(2000.0)
    assert float(step.communication_s) == pytest.approx(64 * (AR4 + 1.5 * D * 2 / RATE))
    assert float(step.time_s) == pytest.approx(float(step.floor_s) + float(step.communication_s))


def test_one_device_says_nothing_and_has_the_plain_floor() -> None:
    one = spread("llama-3-8b")
    assert one.decode(2000.0).collectives == ()
    assert float(one.decode(2000.0, 8.0).time_s) == float(decode_floor(one.model, one.roof, 2000.0, 8.0))
    assert float(one.prefill(2000.0, 1.0, 500.0).time_s) == float(
        prefill_floor(one.model, one.roof, 2000.0, 1.0, 500.0)
    )


def test_without_a_link_messages_are_named_but_cost_nothing() -> None:
    linked = spread("llama-3-8b", tp=4)
    step = Spread(linked.model, linked.layout, linked.roof).decode(2000.0)
    assert step.collectives
    assert step.time_s == step.floor_s


def test_experts_within_a_group_add_up_and_across_groups_travel() -> None:
    within = messages(spread(mixtral(), tp=4, ep=4, head="replicated"))
    assert set(within) == {("all-reduce", "mixers"), ("all-reduce", "experts")}
    across = messages(spread(deepseek(), dp=8, ep=8), 64.0)
    copies = 8 * (1 - (7 / 8) ** 8)
    assert across == {
        ("all-to-all", "tokens to experts and back"): (2 * 58, 8, pytest.approx(7 / 8 * copies * 8 * 7168 * 2))
    }
    sliced = messages(spread(deepseek(), dp=8), 64.0)
    assert sliced == {
        ("all-gather", "tokens of all groups"): (58, 8, 7 / 8 * 64 * 7168 * 2),
        ("reduce-scatter", "experts"): (58, 8, 7 / 8 * 64 * 7168 * 2),
    }
    both = messages(spread(deepseek(), tp=2, dp=4, ep=8, head="replicated"), 64.0)
    # 16 requests a group, half of whose tokens each of its 2 devices sends on.
    assert both == {
        ("all-reduce", "mixers"): (58, 2, 2 / 2 * 16 * 7168 * 2),
        ("all-to-all", "tokens to experts and back"): (2 * 58, 8, pytest.approx(7 / 8 * copies * 8 * 7168 * 2)),
        ("all-gather", "experts"): (58, 2, 1 / 2 * 16 * 7168 * 2),
    }


def test_dp_attention_reads_a_group_and_all_tokens_experts() -> None:
    """64 requests over 8 groups: 8 caches each, and an eighth of the experts that 64 tokens choose."""
    one = spread(deepseek(), dp=8, ep=8)
    ops = {op.name: op for op in one.decode(1000.0, 64.0).work.operations}
    assert float(ops["attention"].kv_bytes) == 8 * 1000 * 58 * 576 * 2
    expert = 3 * 7168 * 2048
    distinct = 256 * (1 - (1 - 8 / 256) ** 64)
    assert float(ops["experts"].weight_bytes) == pytest.approx(58 * distinct / 8 * expert * 2, rel=1e-9)
    assert float(ops["experts"].flops) == pytest.approx(2 * 58 * 64 * 8 / 8 * expert, rel=1e-9)


def test_a_request_of_dp_attention_has_one_group_and_no_more_experts_than_its_own() -> None:
    alone = {op.name: op for op in spread(deepseek(), dp=8, ep=8).decode(1000.0).work.operations}
    assert float(alone["experts"].flops) == pytest.approx(2 * 58 * 8 / 8 * 3 * 7168 * 2048, rel=1e-9)
    assert float(alone["experts"].weight_bytes) == pytest.approx(58 * 8 / 8 * 3 * 7168 * 2048 * 2, rel=1e-9)


def test_a_pipeline_gains_nothing_at_batch_1_and_idles() -> None:
    whole, piped = spread("llama-3-8b"), without_latency(spread("llama-3-8b", pp=4))
    step = piped.decode(2000.0)
    assert float(step.floor_s) == float(whole.decode(2000.0).time_s)
    assert float(step.communication_s) == pytest.approx(3 * D * 2 / RATE)
    assert float(step.waiting_s) == 0
    assert float(step.idle) == pytest.approx(3 / 4)


def test_a_full_pipeline_has_its_parts_in_flight() -> None:
    """32 requests in 4 parts of 8: a token takes as long as 8 requests on one device, and no device idles."""
    step = without_latency(spread("llama-3-8b", pp=4)).decode(2000.0, 32.0)
    assert float(step.floor_s) == float(spread("llama-3-8b").decode(2000.0, 8.0).time_s)
    assert float(step.idle) == pytest.approx(0, abs=1e-12)
    assert float(step.parts) == 4


def test_layers_that_do_not_divide_make_stages_wait() -> None:
    """Of 32 layers in 3 stages the largest has 11, so that 3 parts take 33/32 of the time."""
    step = without_latency(spread("llama-3-8b", pp=3)).decode(2000.0, 3.0)
    busy = float(step.floor_s) + float(step.communication_s)
    assert float(step.time_s) == pytest.approx(33 / 32 * busy)
    assert float(step.idle) == pytest.approx(1 - 32 / 33)


def test_prompts_follow_each_other_through_a_pipeline() -> None:
    piped = without_latency(spread("llama-3-8b", pp=4))
    one, five = float(piped.prefill(2000.0).time_s), float(piped.prefill(2000.0, 5.0).time_s)
    assert five == pytest.approx(one * (4 + 5 - 1) / 4)
    assert float(piped.prefill(2000.0, 5.0).idle) == pytest.approx(1 - 5 / 8)


def test_a_grid_of_batches_is_one_call() -> None:
    sizes = np.array([1.0, 3.0, 64.0, 200.0])
    for one in (
        spread("llama-3-8b", tp=2),
        spread("llama-3-8b", pp=4),
        spread(deepseek(), dp=8, ep=8),
        spread(deepseek(), tp=2, dp=4, pp=2),
    ):
        grid = np.asarray(one.decode(1000.0, sizes).time_s)
        assert grid == pytest.approx([float(one.decode(1000.0, size).time_s) for size in sizes])


def test_the_floor_is_that_of_one_device() -> None:
    one = spread("llama-3-8b", tp=8)
    step = one.decode(2000.0, 16.0)
    assert float(step.floor_s) == float(floor(step.work, one.roof))
    assert float(step.work.kv_bytes) == 16 * 2000 * 131_072 / 8
    layers = 2 * (32 * (D * 128 * (64 + 16) + 3 * D * 14336) / 8 + 65 * D)
    assert float(step.work.weight_bytes) == layers + 2 * V * D / 8
