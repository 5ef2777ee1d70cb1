"""Published measurements and calculations over several devices. Numbers are quoted with their source."""

from __future__ import annotations

import pytest
from parallel_models import spread

from phasewise.model.load import load
from phasewise.predict.parallel.advice import efficiency, paying
from phasewise.predict.parallel.spread import Spread

GPT_FAST = {1: 93.83, 2: 149.10, 4: 217.21, 8: 276.01}
"""Llama-3.1-8B in bf16 on A100-80GB at batch 1, tokens/s by devices: meta-pytorch/gpt-fast's README."""

TGI = {
    "a100-sxm-80gb": {1: 46.79e-3, 2: 29.39e-3, 4: 32.06e-3},
    "h100-sxm": {1: 27.98e-3, 2: 28.02e-3, 4: 31.77e-3},
}
"""CodeLlama-34B in fp16, sequential requests, seconds a token: huggingface/text-generation-inference#1315."""

SPLITWISE = {2: 54.9e-3, 4: 45.0e-3, 8: 45.4e-3}
"""Llama-2-70B on A100-80GB, batch 1 after 2,048 tokens: Mutinifni/splitwise-sim, perf_model.csv."""


def mbu(one: Spread, seconds: float, context: float = 5.0) -> float:
    """Bytes that a device reads in a decode step, over time, over its bandwidth, in percent."""
    return 100 * float(one.decode(context).work.bytes) / seconds / one.roof.bandwidth.value


@pytest.mark.parametrize(("head", "expected"), [("sharded", (69, 55, 40, 25)), ("replicated", (69, 59, 48, 38))])
def test_mbu_of_gpt_fast_follows_the_real_sharding(head: str, expected: tuple[int, ...]) -> None:
    for (devices, rate), percent in zip(GPT_FAST.items(), expected, strict=True):
        one = spread("llama-3.1-8b", "a100-sxm-80gb", tp=devices, head=head)
        assert mbu(one, 1 / rate) == pytest.approx(percent, abs=0.6)


@pytest.mark.parametrize(
    ("name", "devices", "tokens_per_s", "gbps"),
    [
        ("llama-3.1-8b", 1, 93.83, 1408.37),
        ("llama-3.1-8b", 2, 149.10, 1197.32),
        ("llama-3.1-8b", 4, 217.21, 986.32),
        ("llama-3.1-8b", 8, 276.01, 772.60),
        ("llama-3.1-70b", 2, 16.03, 1130.81),
        ("llama-3.1-70b", 4, 37.45, 1360.53),
        ("llama-3.1-70b", 8, 58.78, 1129.61),
    ],
)
def test_gpt_fasts_own_bytes_a_device_have_a_replicated_head(
    name: str, devices: int, tokens_per_s: float, gbps: float
) -> None:
    """Its GB/s over its tokens/s are the bytes that a rank reads: lm_head whole."""
    one = spread(name, "a100-sxm-80gb", tp=devices, head="replicated")
    assert float(one.decode(0.0).work.weight_bytes) == pytest.approx(gbps / tokens_per_s * 1e9, rel=0.004)


@pytest.mark.parametrize(("accelerator", "expected"), [("a100-sxm-80gb", (70, 56, 26)), ("h100-sxm", (72, 36, 16))])
def test_mbu_of_code_llama_in_tgi(accelerator: str, expected: tuple[int, ...]) -> None:
    for (devices, seconds), percent in zip(TGI[accelerator].items(), expected, strict=True):
        assert mbu(spread("codellama-34b", accelerator, tp=devices), seconds) == pytest.approx(percent, abs=0.8)


@pytest.mark.parametrize(("prompt", "seconds", "mfu", "mbu_"), [(128.0, 26e-3, 8, 20), (2048.0, 109e-3, 33, 5)])
def test_tensorrt_llm_70b_fp8_over_four(prompt: float, seconds: float, mfu: int, mbu_: int) -> None:
    """NVIDIA/TensorRT-LLM v0.5, docs/source/performance.md: LLaMA-2-70B, H100 FP8, TP4, first token."""
    one = spread("llama-2-70b", weights="fp8", tp=4)
    step = one.prefill(prompt)
    assert 100 * float(step.work.flops) / seconds / one.roof.compute.value == pytest.approx(mfu, abs=0.6)
    assert 100 * float(step.work.weight_bytes) / seconds / one.roof.bandwidth.value == pytest.approx(mbu_, abs=0.4)
    layers = [m for m in step.collectives if m.kind == "all-reduce" and m.what != "embedding"]
    assert sum(m.times for m in layers) == 160
    assert float(step.time_s) < seconds


def test_how_many_devices_pay_in_what_was_measured() -> None:
    assert paying(TGI["h100-sxm"]) == 1
    assert paying(TGI["a100-sxm-80gb"]) == 2
    assert paying({n: 1 / rate for n, rate in GPT_FAST.items()}) == 4
    assert paying(SPLITWISE) == 2
    assert efficiency({n: 1 / rate for n, rate in GPT_FAST.items()}, 8) == pytest.approx(0.37, abs=0.005)


@pytest.mark.parametrize("head", ["sharded", "replicated"])
def test_the_floor_never_exceeds_what_was_measured(head: str) -> None:
    for devices, rate in GPT_FAST.items():
        assert float(spread("llama-3.1-8b", "a100-sxm-80gb", tp=devices, head=head).decode(5.0).time_s) < 1 / rate
    for devices, seconds in SPLITWISE.items():
        assert float(spread("llama-2-70b", "a100-sxm-80gb", tp=devices).decode(2048.0).time_s) < seconds
    for accelerator, steps in TGI.items():
        for devices, seconds in steps.items():
            assert float(spread("codellama-34b", accelerator, tp=devices).decode(5.0).time_s) < seconds


@pytest.mark.parametrize(
    ("batch", "milliseconds"), [(1, 4.98), (8, 12.13), (16, 20.30), (32, 36.65), (64, 69.33), (240, 249.09)]
)
def test_the_scaling_books_13b_over_eight_chips(batch: int, milliseconds: float) -> None:
    """(26e9 + B·6.7e9) / (8 · 0.82e12), inference.md: LLaMA 2-13B, 8,192 tokens of context, v5e 4x2.

    The book counts the embedding as read, 0.33 of 26 GB, and rounds its caches of 6.71 GB.
    """
    one = spread("llama-2-13b", "tpu-v5e", tp=8)
    step = one.decode(8192.0, float(batch))
    seconds = float(step.work.bytes) / 0.82e12
    unread = 2 * 32_000 * 5120 / 8 / 0.82e12
    assert 1e3 * (seconds + unread) == pytest.approx(milliseconds, rel=0.003)


def test_the_scaling_books_70b_in_int8_over_eight_chips() -> None:
    """112e9 / (8 · 8.1e11) = 17 ms, applied-inference.md: 70 GB of weights and 32 caches of 8,192 tokens in int8."""
    one = spread("llama-2-70b", "tpu-v5e", weights="int8", tp=8)
    step = Spread(load("llama-2-70b", "int8", "int8"), one.layout, one.roof, one.link).decode(8192.0, 32.0)
    assert float(step.work.bytes) / 8.1e11 == pytest.approx(17e-3, rel=0.03)


def test_the_scaling_books_70b_prefill_over_sixteen_chips() -> None:
    """2·70e9·8192 / (16 · 1.97e14 · 0.4) = 0.91 s; counted, each chip has a sixteenth of 69 billion weights."""
    one = spread("llama-2-70b", "tpu-v5e", tp=16)
    step = one.prefill(8192.0)
    plain = float(step.work.flops - step.work.attention_flops)
    assert plain / 1.97e14 / 0.4 == pytest.approx(0.91, rel=0.02)
