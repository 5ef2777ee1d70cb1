"""Phase by evidence: planted passes without a mark, and workloads that are no language model's."""

from __future__ import annotations

import json

import pytest
from attribution_planted import EMBED, KV, SAMPLE, Planted, engine

from phasewise.observe.traces.split import Step
from phasewise.observe.traces.steps import split

LARGE, SMALL = "Cijk_Alik_Bljk_BBS_BH_MT256x192x64_MI16x16x1", "Cijk_Alik_Bljk_BBS_BH_MT16x32x512_MI16x16x1"


def one_pass(kernels: list[tuple[str, float]], *, layers: int = 8, graph: bool = False, ends: bool = True) -> Step:
    planted = Planted()
    body = kernels * layers
    if graph:
        planted.call(10, body, 0, graph=True)
    else:
        for row, kernel in enumerate([(EMBED, 5.0), *body] if ends else body):
            planted.call(10 + 5 * row, [kernel], 0)
    if ends:
        planted.call(5000, [(SAMPLE, 5)], 0)
    (step,) = split(planted.trace()).steps
    return step


@pytest.mark.parametrize(
    ("attention", "phase"),
    [
        ("_ZN7ck_tile6kentryILi2ENS_38FmhaBatchPrefillWithPagedKVCacheKernel", "prefill"),
        ("void flashinfer::BatchPrefillWithRaggedKVCacheKernel<Params>", "prefill"),
        ("fmhaSm100aKernel_QkvE4m3OBfloat16H64PagedKvCausalP16VarSeqQ128Kv128PersistentContext", "prefill"),
        ("void paged_attention_ll4mi_QKV_mfma16_kernel<0, bf16>", "decode"),
        ("void flashinfer::BatchDecodeWithPagedKVCacheKernel<Params>", "decode"),
        ("fmhaSm100aKernel_QkvE4m3OBfloat16H64PagedKvDenseP16VarSeqQ8Kv128StaticSwapsAbForGen", "decode"),
        ("void flash::flash_fwd_splitkv_combine_kernel<Traits>", "decode"),
        ("kernel_unified_attention_3d", "decode"),
        ("void flash_fwd_splitkv_mla_kernel<Traits>", "decode"),
    ],
)
def test_attention_kernels_made_for_one_phase(attention: str, phase: str) -> None:
    step = one_pass([(KV, 5), (attention, 20), ("gemm", 30)])
    assert (step.phase, step.confidence >= 0.9) == (phase, True)
    assert attention[:20] in step.evidence[0]


def test_both_kinds_of_attention_side_by_side_are_a_mixed_step() -> None:
    kernels = [(KV, 5.0), ("BatchPrefillWithPagedKVCacheKernel", 20.0), ("BatchDecodeWithPagedKVCacheKernel", 20.0)]
    assert one_pass(kernels).phase == "mixed"


def test_attention_for_either_in_one_graph_with_small_tiles_is_decode() -> None:
    step = one_pass([(KV, 3), ("flash::compute_attn_ws", 5), (SMALL, 5)], graph=True)
    assert step.phase == "decode"
    assert step.confidence >= 0.9


def test_a_kernel_that_serves_both_leaves_large_work_unknown() -> None:
    """Prompts are in it; whether decode rides along cannot be told, so neither is claimed."""
    step = one_pass([(KV, 30), ("kernel_unified_attention_2d", 200), (LARGE, 900)])
    assert step.phase == "unknown"
    assert "alike" in step.evidence[-1]


def test_matrix_vector_products_are_decode() -> None:
    step = one_pass([(KV, 3), ("flash::compute_attn_ws", 5), ("void gemvx::kernel<int>", 9)])
    assert step.phase == "decode"
    assert "matrix-vector" in step.evidence[0]


@pytest.mark.parametrize(
    "kernels",
    [
        [(LARGE, 900.0)],
        [("ampere_sgemm_128x128_nn", 50.0)],
        [("attn_fwd", 900.0), (LARGE, 900.0)],
        [("flash_fwd_kernel<Traits, false, false>", 900.0), (LARGE, 900.0), ("upsample_nearest2d", 5.0)],
        [("softmax_warp_forward", 30.0), (LARGE, 900.0)],
        [("sm80_xmma_fprop_implicit_gemm_f16f16_tilesize128x128x32", 40.0)],
    ],
    ids=["gemm", "benchmark", "diffusion", "unet", "encoder", "convolution"],
)
def test_what_is_no_language_model_is_unknown(kernels: list[tuple[str, float]]) -> None:
    step = one_pass(kernels, ends=False)
    assert step.phase == "unknown"
    assert step.confidence < 0.6


@pytest.mark.parametrize(
    "name", ["flash_bwd_dq_dk_dv_loop_kernel", "cutlass_wgrad_256x128", "multi_tensor_apply_kernel<AdamFunctor"]
)
def test_training_is_unknown(name: str) -> None:
    step = one_pass([("flash_fwd_kernel<Traits, false, true>", 90), (LARGE, 90), (name, 90)])
    assert step.phase == "unknown"
    assert "training" in step.evidence[0]


def test_graphs_whose_kernels_are_not_listed() -> None:
    planted = engine(["prefill"], bands=False)
    for step in range(1, 6):
        at = 1000.0 * step
        planted.copy(at)
        planted.replay(at + 5, 300, graph=4)
        planted.call(at + 10, [(SAMPLE, 5)], step)
    done = split(planted.trace())
    assert [step.phase for step in done.steps] == ["prefill", *["decode"] * 5]
    assert done.replay.tolist() == [1, 2, 3, 4, 5]
    assert done.kernel.tolist() == planted.truth


def test_replays_of_some_other_program_are_unknown() -> None:
    planted = Planted()
    for step in range(3):
        planted.replay(100.0 * step, 50, graph=1)
    done = split(planted.trace())
    assert {step.phase for step in done.steps} == {"unknown"}
    assert done.replay.tolist() == [0, 1, 2]


def shaped(queries: int, keys: int, rows: int, logits: int) -> Step:
    """A pass whose kernels say nothing and whose operators have shapes; the vocabulary has 32,000 entries."""
    planted = Planted()
    planted.op("aten::embedding", 10, 12, json.dumps([[32000, 512], [1, rows], []]))
    planted.call(11, [(EMBED, 2)], 0)
    at = 20.0
    for _ in range(8):
        planted.op(
            "aten::scaled_dot_product_attention", at, at + 3, json.dumps([[1, 8, queries, 64], [1, 8, keys, 64]])
        )
        planted.call(at + 1, [("fmha_kernel", 2)], 0)
        planted.op("aten::mm", at + 5, at + 8, json.dumps([[rows, 512], [512, 2048]]))
        planted.call(at + 6, [("matmul_kernel", 2)], 0)
        at += 10
    planted.op("aten::linear", at, at + 4, json.dumps([[1, logits, 512], [32000, 512], []]))
    planted.call(at + 1, [("matmul_kernel", 2)], 0)
    (step,) = split(planted.trace()).steps
    return step


def test_shapes_tell() -> None:
    prefill = shaped(300, 300, 300, 1)
    assert prefill.phase == "prefill"
    assert "attention of 300 queries to 300 keys" in prefill.evidence
    assert "300 tokens, logits for 1 of them" in prefill.evidence
    decode = shaped(1, 300, 4, 4)
    assert decode.phase == "decode"
    assert "attention of one query to 300 keys" in decode.evidence
    forward = shaped(300, 300, 300, 300)
    assert forward.phase == "prefill", "a forward pass that wants logits for the whole prompt"


def test_shapes_that_are_no_shapes_are_left_out() -> None:
    planted = engine(["decode"], bands=False)
    for shape in ("[", "{}", "[[1, -2]]", '[["a", 1]]', "[[[[[[[[[[1]]]]]]]]]]", "null", "[[], [3]]"):
        planted.op("aten::mm", 11, 12, shape)
        planted.op("aten::embedding", 11, 12, shape)
        planted.op("aten::_softmax", 11, 12, shape)
    (step,) = split(planted.trace()).steps
    assert step.phase == "decode"
