"""Roles from the order of families, in layers written by hand and in the public traces."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from traces_shared import shared_trace

from phasewise.observe.traces.busy import ordered
from phasewise.observe.traces.families import FAMILIES, family_of, rules
from phasewise.observe.traces.roles import ROLES, roles


def told(families: list[str], names: list[str] | None = None, steps: list[int] | None = None) -> list[str]:
    """Roles of one kernel after the other; ``names`` are the families where not given."""
    count = len(families)
    step = np.array(steps if steps is not None else [0] * count, np.int32)
    found = roles(np.arange(count), step, families, np.arange(count), names or families)
    return [ROLES[code] for code in found]


def layer(*middle: tuple[str, str]) -> list[tuple[str, str]]:
    """From the QKV of a layer to the norm behind its MLP, as (family, expected role)."""
    return [
        ("gemm", "qkv"),
        ("rope", "rope"),
        ("kv_write", "kv_write"),
        ("attention", "attention"),
        ("gemm", "output"),
        ("communication", "communication"),
        ("norm", "norm"),
        *middle,
        ("norm", "norm"),
    ]


DENSE = layer(("gemm", "gate_up"), ("activation", "activation"), ("gemm", "down"), ("communication", "communication"))
FUSED = layer(("gemm", "gate_up"), ("gemm", "down"))
ONE_BY_ONE = layer(
    ("gemm", "gate_up"), ("activation", "activation"), ("gemm", "gate_up"), ("copy", ""), ("gemm", "down")
)
EXPERTS = layer(("gemm", "router"), ("moe", "experts"), ("activation", "experts"), ("moe", "experts"))
HEAD, TAIL = [("copy", ""), ("norm", "norm")], [("gemm", "lm_head"), ("copy", "sampling"), ("sampling", "sampling")]


@pytest.mark.parametrize("one", [DENSE, FUSED, ONE_BY_ONE, EXPERTS])
@pytest.mark.parametrize("layers", [2, 5])
def test_layers_by_hand(one: list[tuple[str, str]], layers: int) -> None:
    step = HEAD + one * layers + TAIL + [("copy", "")]
    assert told([family for family, _ in step]) == [role for _, role in step]


def test_gemv_stands_for_gemm_and_steps_are_apart() -> None:
    step = [(family.replace("gemm", "gemv"), role) for family, role in HEAD + DENSE * 2 + TAIL]
    families = [family for family, _ in step] * 2
    assert told(families, steps=[0] * len(step) + [1] * len(step)) == [role for _, role in step] * 2


def test_split_k_and_attention_in_two_kernels() -> None:
    pairs = [
        ("gemm", "qkv"),
        ("attention", "attention"),
        ("attention", "attention"),
        ("gemm", "output"),
        ("gemm", "output"),
        ("norm", "norm"),
        ("gemm", "gate_up"),
        ("activation", "activation"),
        ("gemm", "down"),
        ("gemm", "down"),
        ("norm", "norm"),
    ]
    names = ["nvjet", "a", "reduce_segments", "nvjet", "splitKreduce_kernel", "n", "nvjet", "silu", "nvjet"]
    names += ["void cublasLt::splitKreduce_kernel<32>", "n"]
    step = pairs * 3 + [("gemm", "lm_head")]
    assert told([family for family, _ in step], names * 3 + ["nvjet"]) == [role for _, role in step]


def test_latent_attention_projects_down_and_up() -> None:
    """MLA: two projections with a norm between before attention, two multiplications behind it."""
    one = [
        ("gemm", "qkv"),
        ("norm", "norm"),
        ("gemm", "qkv"),
        ("gemm", "qkv"),
        ("rope", "rope"),
        ("attention", "attention"),
        ("gemm", "output"),
        ("gemm", "output"),
        ("norm", "norm"),
        ("gemm", "gate_up"),
        ("activation", "activation"),
        ("gemm", "down"),
        ("norm", "norm"),
    ]
    step = [("norm", "norm"), *one * 3, ("gemm", "lm_head")]
    assert told([family for family, _ in step]) == [role for _, role in step]


def test_without_norms_the_activation_tells() -> None:
    one = [
        ("gemm", "qkv"),
        ("attention", "attention"),
        ("gemm", "output"),
        ("gemm", "gate_up"),
        ("activation", "activation"),
        ("gemm", "down"),
    ]
    step = one * 3 + [("gemm", "lm_head")]
    assert told([family for family, _ in step]) == [role for _, role in step]


def test_four_multiplications_tell_themselves() -> None:
    one = [("gemm", "qkv"), ("attention", "attention"), ("gemm", "output"), ("gemm", "gate_up"), ("gemm", "down")]
    step = one * 3 + [("gemm", "lm_head")]
    assert told([family for family, _ in step]) == [role for _, role in step]


def test_a_plan_before_all_work_begins_no_layer() -> None:
    step = [("attention", ""), *HEAD, *DENSE * 2, *TAIL]
    assert told([family for family, _ in step]) == [role for _, role in step]


def test_the_embedding_is_the_lookup_before_the_first_norm() -> None:
    names = ["fill", "vectorized_gather_kernel", "norm", *[family for family, _ in DENSE * 2]]
    found = told(["copy", "copy", "norm", *[family for family, _ in DENSE * 2]], names)
    assert found[:3] == ["", "embedding", "norm"]


@pytest.mark.parametrize(
    "families",
    [
        ["gemm"] * 20,
        ["gemm", "norm", "activation"] * 10,
        ["gemm", "attention", "gemm", "norm", "gemm", "activation", "gemm", "norm", "gemm"],
        ["norm", "attention", "norm", "attention"],
        ["other"],
    ],
)
def test_nothing_is_told_where_layers_do_not_repeat(families: list[str]) -> None:
    assert set(told(families)) <= {""}


@pytest.mark.parametrize("name", ["softmax_warp_forward", "soft_max_f32"])
def test_attention_written_out_marks_no_layer(name: str) -> None:
    families = ["gemm", "gemm", "attention", "gemm", "gemm", "norm", "gemm", "activation", "gemm", "norm"] * 4
    assert set(told(families, [name if one == "attention" else one for one in families])) == {""}


def test_training_is_no_order_of_these() -> None:
    families = [family for family, _ in DENSE * 3]
    assert set(told([*families, "other"], [*families, "flash_bwd_kernel"])) == {""}


def test_no_kernels_no_roles() -> None:
    assert len(roles(np.zeros(0, np.int64), np.zeros(0, np.int32), (), np.zeros(0, np.int64), ())) == 0
    outside = roles(np.zeros(0, np.int64), np.full(3, -1, np.int32), ("gemm",), np.zeros(3, np.int64), ("x",))
    assert outside.tolist() == [0, 0, 0]


@given(st.lists(st.tuples(st.sampled_from(FAMILIES), st.integers(0, 2)), max_size=60))
def test_any_order_has_roles_that_fit_its_families(rows: list[tuple[str, int]]) -> None:
    rows = sorted(rows, key=lambda row: row[1])
    found = told([family for family, _ in rows], steps=[step for _, step in rows])
    fits = {
        "qkv": {"gemm", "gemv"},
        "output": {"gemm", "gemv"},
        "gate_up": {"gemm", "gemv"},
        "down": {"gemm", "gemv"},
        "lm_head": {"gemm", "gemv"},
        "router": {"gemm", "gemv", "moe"},
        "experts": {"gemm", "gemv", "moe", "activation"},
        "embedding": {"copy"},
        "sampling": set(FAMILIES),
        "": set(FAMILIES),
    }
    for role, (family, _) in zip(found, rows, strict=True):
        assert family in fits.get(role, {role})


REAL = {
    "vllm_gptoss_mi300x_decode": {"qkv": 24, "output": 24, "attention": 36, "router": 120, "experts": 96, "lm_head": 1},
    "vllm_gptoss_mi300x_mixed": {"qkv": 24, "output": 24, "attention": 24, "router": 120, "experts": 96, "lm_head": 1},
    "sglang_qwen3_8b_mi300x_decode": dict.fromkeys(("qkv", "output", "gate_up", "down"), 36) | {"lm_head": 1},
    "sglang_qwen3_8b_mi300x_prefill": dict.fromkeys(("qkv", "output", "gate_up", "down"), 36) | {"lm_head": 1},
    "vllm_b200_eager": {"qkv": 36, "output": 36, "attention": 36, "router": 144, "experts": 108, "lm_head": 1},
}
"""By layer: gpt-oss-20b has 24 layers, Qwen3-8B 36, gpt-oss-120b 36."""


LARGEST = ("vllm_gptoss_mi300x_mixed", "vllm_b200_eager")


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in LARGEST else n for n in REAL])
def test_real_steps_have_every_layer(name: str) -> None:
    _, made = shared_trace(f"kineto/{name}.json.gz")
    kernels, step = made.kernels, np.zeros(len(made.kernels.start), np.int32)
    families = family_of(made.names, rules())
    found = roles(ordered(step, kernels.start), step, families, kernels.name.astype(np.int64), made.names)
    counts = Counter(ROLES[code] for code in found)
    assert {role: counts[role] for role in REAL[name]} == REAL[name]
    matmul = [row for row in range(len(step)) if families[kernels.name[row]] == "gemm"]
    assert all(found[row] for row in matmul)
