"""Passes without a mark, launched as engines launch them: their kernels, graphs, pauses. All planted."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial

import pytest
from attribution_planted import EMBED, KV, SAMPLE, Planted

from phasewise.observe.traces.steps import split

UNIFIED = "kernel_unified_attention_2d"
LARGE, SMALL, LOGITS = (
    f"Cijk_Alik_Bljk_BBS_BH_{tile}_MI16x16x1" for tile in ("MT256x192x64", "MT16x32x64", "MT256x48x64")
)


def eager(planted: Planted, at: float, kernels: list[str], length: float, step: int) -> float:
    """Kernels launched one by one; returns the time after the last call."""
    for kernel in kernels:
        planted.call(at, [(kernel, length)], step)
        at += 6
    return at


def vllm(listed: bool) -> tuple[Planted, list[str]]:
    """Prompts through pieces of graphs with attention between them, decode as one graph, sampling outside both.

    The attention kernel serves both phases, and gating picks with top-k in every layer.
    """
    planted, now, layers = Planted(), 10.0, 24
    for step in range(6):
        prompt = step in (0, 3)
        matmul, length = (LARGE, 80.0) if prompt else (SMALL, 4.0)
        layer = [("norm", length), (matmul, length), ("_topk_forward", length)]
        planted.copy(now)
        now += 20
        if prompt:
            for piece in range(layers + 1):
                if listed:
                    planted.call(now, layer, step, graph=True)
                else:
                    planted.replay(now, 50, graph=100 + piece)
                now += 5
                if piece < layers:
                    now = eager(planted, now, [KV, UNIFIED], length, step)
        elif listed:
            planted.call(now, [*layer, (KV, length), (UNIFIED, length)] * layers, step, graph=True)
        else:
            planted.replay(now, 5000, graph=7)
        now = eager(planted, now + 10, [EMBED, LOGITS, SAMPLE], 3, step) + 300
    return planted, ["unknown", "decode", "decode", "unknown", "decode", "decode"]


def graphs_per_layer() -> tuple[Planted, list[str]]:
    """A graph for every layer, its attention two kernels: a piece of a pass, not a pass."""
    planted, now = Planted(), 10.0
    for step in range(4):
        layer = [("norm", 4.0), (SMALL, 4.0), (KV, 4.0), ("paged_attention_v2", 4.0), ("paged_attention_reduce", 4.0)]
        now = eager(planted, now, [EMBED], 3, step)
        for _ in range(16):
            planted.call(now, layer, step, graph=True)
            now += 6
        now = eager(planted, now, [LOGITS, SAMPLE], 3, step) + 300
    return planted, ["decode"] * 4


def nano_vllm() -> tuple[Planted, list[str]]:
    planted, now = Planted(), 10.0
    for step in range(4):
        attention, matmul, length = (
            ("flash_fwd_kernel<Traits, false, true>", "ampere_bf16_s16816gemm_bf16_128x128_ldg8_tn", 60.0)
            if step == 0
            else (
                "flash_fwd_splitkv_kernel<Traits, false, false>",
                "cutlass_80_wmma_s161616gemm_bf16_16x16_128x2_tn",
                5.0,
            )
        )
        layer = ["triton_red_fused_rms", matmul, "store_kvcache_kernel", attention, matmul, "triton_poi_silu", matmul]
        now = eager(planted, now, [EMBED, *layer * 28, EMBED, matmul, "softmax", SAMPLE], length, step)
        planted.copy(now)
        now += 400
    return planted, ["prefill", "decode", "decode", "decode"]


def transformers() -> tuple[Planted, list[str]]:
    """One attention kernel for both phases, no KV-cache kernel: only the operators' shapes tell."""
    planted, now = Planted(), 10.0
    for step in range(4):
        tokens = 300 if step == 0 else 1
        planted.op("aten::embedding", now - 1, now + 3, json.dumps([[32000, 512], [1, tokens]]))
        now = eager(planted, now, [EMBED], 5, step)
        for _ in range(12):
            planted.op("aten::mm", now - 1, now + 3, json.dumps([[tokens, 512], [512, 2048]]))
            now = eager(planted, now, ["nvjet_tst_64x64_64x16"], 5, step)
            both = json.dumps([[1, 8, tokens, 64], [1, 8, 300 + step, 64]])
            planted.op("aten::scaled_dot_product_attention", now - 1, now + 3, both)
            now = eager(planted, now, ["fmha_cutlassF_bf16_aligned_64x64_rf_sm80", "silu"], 5, step)
        planted.op("aten::mm", now - 1, now + 3, json.dumps([[1, 512], [512, 32000]]))
        now = eager(planted, now, ["nvjet_tst_64x64_64x16", SAMPLE], 5, step) + 200
    return planted, ["prefill", "decode", "decode", "decode"]


def llama_cpp(graphs: bool) -> tuple[Planted, list[str]]:
    """It samples on the host: nothing but the lookup and the replayed graph tell passes apart."""
    planted, now = Planted(), 10.0
    for step in range(5):
        attention, matmul = (
            ("flash_attn_ext_f16<128>", "mul_mat_q<12, 128>")
            if step == 0
            else ("flash_attn_vec_f16<128>", "mul_mat_vec_q<12>")
        )
        planted.copy(now)
        if graphs and step:
            planted.replay(now + 20, 4000, graph=9)
        else:
            layer = ["rms_norm_f32", matmul, "rope_neox", "k_set_rows", attention, matmul]
            now = eager(planted, now + 20, ["k_get_rows_float", *layer * 24, "mul_mat_vec_q<12>"], 8, step)
        planted.copy(now + 30)
        now += 5000
    return planted, ["prefill", "decode", "decode", "decode", "decode"]


def diffusion() -> tuple[Planted, list[str]]:
    """A text encoder that looks up and picks with argmax, then a transformer with rotary embedding, again and again."""
    planted = Planted()
    encoder = [EMBED, *["ampere_sgemm_64x64", "flash_fwd_kernel<Traits, false, false>"] * 12, SAMPLE]
    transformer = ["rope_kernel", "flash_fwd_kernel<Traits, false, false>", LARGE, "rms_norm"] * 38
    eager(planted, 10, [*encoder, *transformer * 4, "upsample_nearest2d", "conv"], 90, 0)
    return planted, []


@pytest.mark.parametrize(
    "engine",
    [
        partial(vllm, True),
        partial(vllm, False),
        graphs_per_layer,
        nano_vllm,
        transformers,
        partial(llama_cpp, False),
        partial(llama_cpp, True),
    ],
    ids=["vllm", "vllm opaque", "graphs per layer", "nano-vllm", "transformers", "llama.cpp", "llama.cpp opaque"],
)
def test_the_passes_of_an_engine(engine: Callable[[], tuple[Planted, list[str]]]) -> None:
    planted, phases = engine()
    done = split(planted.trace())
    assert [step.phase for step in done.steps] == phases
    assert done.kernel.tolist() == planted.truth
    replays = [step for step, phase in enumerate(phases) if phase == "decode"]
    assert set(replays) >= set(done.replay[done.replay >= 0].tolist()) - {0, 3}
    assert (done.replay >= 0).all()


def test_diffusion_is_unknown() -> None:
    planted, _ = diffusion()
    done = split(planted.trace())
    assert {step.phase for step in done.steps} == {"unknown"}
    assert (done.kernel >= 0).all()
