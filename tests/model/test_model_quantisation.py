"""Quantised checkpoints: bytes by role, scales counted, what stays in 16 bit respected, the rest named."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from test_model_load import BODY, HEAD, directory
from test_model_oracle import CONFIGS

from phasewise.errors import UsageError
from phasewise.model import formats
from phasewise.model.load import load
from phasewise.model.model import Model

LAYER = BODY // 2
Q, K, DOWN = 256 * 256, 256 * 128, 256 * 512
"""Weights of one layer's q_proj, k_proj and down_proj in the small model."""

GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 128}
AWQ = {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}
TENSORS = {"num_bits": 8, "type": "float"}
INT4 = {"num_bits": 4, "type": "int", "group_size": 128}
FP4 = {"num_bits": 4, "type": "float", "group_size": 16}


def compressed(weights: dict[str, Any], **group: Any) -> dict[str, Any]:
    return {
        "quant_method": "compressed-tensors",
        "config_groups": {"group_0": {"weights": weights, "targets": ["Linear"], **group}},
        "ignore": ["lm_head"],
    }


@pytest.mark.parametrize(
    ("quantization", "name", "per_weight", "best"),
    [
        ({"quant_method": "fp8"}, "fp8", 1.0, "fp8"),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8-block", 1 + 4 / 16384, "fp8"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "nvfp4", 0.5625, "fp4"),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, "fp8", 1.0, "fp8"),
        ({"quant_method": "mxfp4"}, "mxfp4", 0.53125, "bf16"),
        (GPTQ, "int4-g128-zeros", 0.5 + 2.5 / 128, "bf16"),
        (GPTQ | {"group_size": 32}, "int4-g32-zeros", 0.5 + 2.5 / 32, "bf16"),
        (GPTQ | {"group_size": -1}, "int4-g0-zeros", 0.5, "bf16"),
        (GPTQ | {"bits": 8}, "int8-g128-zeros", 1 + 3 / 128, "bf16"),
        (
            {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True},
            "int4-g128-zeros",
            0.51953125,
            "bf16",
        ),
        ({"quant_method": "awq", "bits": 4, "group_size": 64, "zero_point": False}, "int4-g64", 0.53125, "bf16"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "nf4", 0.5625, "bf16"),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, "int8", 1.0, "bf16"),
        (compressed(TENSORS, input_activations=TENSORS), "fp8", 1.0, "fp8"),
        (compressed(TENSORS | {"num_bits": 8, "type": "int"}, input_activations=TENSORS), "int8", 1.0, "int8"),
        (compressed(TENSORS), "fp8", 1.0, "bf16"),
        (compressed(INT4), "int4", 0.515625, "bf16"),
        (compressed(INT4 | {"symmetric": False}), "int4-g128-zeros", 0.51953125, "bf16"),
        (compressed(FP4, input_activations=FP4), "nvfp4", 0.5625, "fp4"),
        (compressed(FP4), "nvfp4", 0.5625, "bf16"),
        (compressed(FP4 | {"group_size": 32}), "mxfp4", 0.53125, "bf16"),
    ],
)
def test_quantised_configs(
    tmp_path: Path, quantization: dict[str, Any], name: str, per_weight: float, best: str
) -> None:
    model = load(str(directory(tmp_path / "m", quantization_config=quantization)))
    assert model.weights_format == name
    assert model.resident_bytes == pytest.approx(BODY * per_weight + 2 * HEAD, rel=1e-12)
    assert model.compute[0] == best
    assert model.architecture.not_modelled == ()


@pytest.mark.parametrize(
    "quantization",
    [
        {"quant_method": "aqlm", "nbits_per_codebook": 16},
        {"quant_method": "bitsandbytes"},
        {"quant_method": "fp8", "weight_block_size": [1, 32]},
        {"quant_method": "gptq", "bits": 3, "group_size": 128},
        {"quant_method": "gptq", "bits": [4], "group_size": 0},
        {"quant_method": "gptq", "bits": True, "group_size": 128},
        {"quant_method": "gptq", "bits": 4, "group_size": 10**30},
        {"quant_method": "compressed-tensors", "config_groups": {"a": {}, "b": {}}},
        {"quant_method": "compressed-tensors", "config_groups": [1]},
        {"quant_method": ["x"], "quant_algo": {"y": 1}},
        {"quant_algo": "MIXED_PRECISION", "quantized_layers": {"a": {"quant_algo": "NEW"}}},
        {"nothing": 1},
    ],
)
def test_quantisation_that_cannot_be_expressed_is_named(tmp_path: Path, quantization: dict[str, Any]) -> None:
    model = load(str(directory(tmp_path / "m", quantization_config=quantization)))
    assert model.weights_format == "bf16"
    (named,) = model.architecture.not_modelled
    assert named.startswith("quantisation by ")


@pytest.mark.parametrize(
    ("ignored", "high"),
    [
        (["lm_head", "model.norm"], 0),
        (["model.layers.0.self_attn.q_proj", "model.layers.1.mlp.down_proj"], Q + DOWN),
        (["model.layers.0"], LAYER),
        (["model.layers.0.*"], LAYER),
        (["model.layers.*.self_attn"], 2 * (2 * Q + 2 * K)),
        (["self_attn"], 2 * (2 * Q + 2 * K)),
        (["k_proj"], 2 * K),
        (["re:.*self_attn.*", "re:.*mlp\\.(gate|up|gate_up|down)_proj.*"], 2 * LAYER),
        (["re:model\\.layers\\.[0-9]+\\.mlp\\.down_proj"], 2 * DOWN),
        (["re:.*layers\\.\\d+\\..*down.*$"], 2 * DOWN),
        (["model.layers.10.self_attn"], 0),
        ([7, None], 0),
    ],
)
def test_what_a_quantiser_left_in_16_bit_is_counted_so(tmp_path: Path, ignored: list[Any], high: int) -> None:
    quantization = {"quant_method": "fp8", "modules_to_not_convert": ignored}
    model = load(str(directory(tmp_path / "m", quantization_config=quantization)))
    assert model.resident_bytes == pytest.approx(BODY + high + 2 * HEAD, rel=1e-12)
    assert model.architecture.not_modelled == ()


@pytest.mark.parametrize(
    "entry", ["re:(a+)+$", "re:(.*)*x", "re:[", "re:" + "a?" * 300, "re:" + ".*.*.*.*.*x", "re:(?=x)"]
)
def test_an_expression_that_could_hang_is_named_and_not_tried(tmp_path: Path, entry: str) -> None:
    started = time.perf_counter()
    quantization = {"quant_method": "fp8", "ignore": [entry] * 50}
    model = load(str(directory(tmp_path / "m", quantization_config=quantization)))
    assert time.perf_counter() - started < 5
    assert "not understood" in model.architecture.not_modelled[0]
    assert model.resident_bytes == BODY + 2 * HEAD


def test_groups_of_modules_may_have_their_own_formats(tmp_path: Path) -> None:
    groups = {
        "experts": {"weights": INT4, "targets": ["Linear"]},
        "attention": {"weights": TENSORS, "targets": ["re:.*self_attn.*"]},
    }
    quantization = {"quant_method": "compressed-tensors", "config_groups": groups, "ignore": ["lm_head"]}
    model = load(str(directory(tmp_path / "m", quantization_config=quantization)))
    attention = 2 * (2 * Q + 2 * K)
    assert model.resident_bytes == pytest.approx(attention + (BODY - attention) * 0.515625 + 2 * HEAD)
    assert model.weights_format == "int4 (fp8)"
    layers = {f"model.layers.{n}.mlp.{p}_proj": {"quant_algo": "NVFP4"} for n in (0, 1) for p in ("gate", "up", "down")}
    layers["model.layers.0.self_attn.o_proj"] = {"quant_algo": "FP8"}
    model = load(
        str(
            directory(tmp_path / "n", quantization_config={"quant_algo": "MIXED_PRECISION", "quantized_layers": layers})
        )
    )
    mlp = 2 * 3 * DOWN
    assert model.resident_bytes == pytest.approx(mlp * 0.5625 + Q + 2 * (BODY - mlp - Q) + 2 * HEAD)


def test_a_side_file_of_modelopt_counts(tmp_path: Path) -> None:
    folder = directory(tmp_path / "m")
    side = {"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]}}
    (folder / "hf_quant_config.json").write_text(json.dumps(side))
    model = load(str(folder))
    assert (model.weights_format, model.kv_format) == ("fp8", "fp8")
    assert model.resident_bytes == BODY + 2 * HEAD


def real(tmp_path: Path, name: str) -> Model:
    if not CONFIGS.is_dir():
        pytest.skip("skipped: no shared data")
    folder = tmp_path / name
    folder.mkdir()
    (folder / "config.json").write_bytes((CONFIGS / f"{name}.json").read_bytes())
    side = CONFIGS / f"{name}.hf_quant_config.json"
    if side.is_file():
        (folder / "hf_quant_config.json").write_bytes(side.read_bytes())
    return load(str(folder))


def test_gpt_oss_keeps_all_but_its_experts_in_16_bit(tmp_path: Path) -> None:
    model = real(tmp_path, "openai__gpt-oss-120b")
    experts = 36 * 128 * (2880 * 2880 * 3 + 3 * 2880)
    assert model.weight_bytes["experts"] == pytest.approx(experts * 0.53125)
    assert model.resident_bytes == pytest.approx(experts * 0.53125 + 2 * (116_829_156_672 - experts))
    # The published checkpoint is 65.3 GB (from memory: 60.8 GiB).
    assert model.resident_bytes / 2**30 == pytest.approx(60.8, abs=0.3)
    assert model.compute[0] == "bf16"


def test_nvfp4_with_94_routers_left_alone(tmp_path: Path) -> None:
    model = real(tmp_path, "nvidia__Qwen3-235B-A22B-NVFP4")
    high = sum(model.architecture.parameters()[role] for role in ("embedding", "lm_head", "norm", "router"))
    assert model.resident_bytes == pytest.approx(0.5625 * (model.parameters - high) + 2 * high)
    assert (model.weights_format, model.kv_format, model.compute[0]) == ("nvfp4", "fp8", "fp4")


def test_fp8_lists_of_norms_and_routers_change_nothing(tmp_path: Path) -> None:
    model = real(tmp_path, "Qwen__Qwen3-235B-A22B-FP8")
    high = sum(model.architecture.parameters()[role] for role in ("embedding", "lm_head", "norm", "router"))
    assert model.resident_bytes == pytest.approx((1 + 4 / 16384) * (model.parameters - high) + 2 * high)
    assert model.architecture.not_modelled == ()


def test_experts_in_a_format_of_their_own(tmp_path: Path) -> None:
    flash = real(tmp_path, "deepseek-ai__DeepSeek-V4-Flash")
    experts = flash.architecture.parameters()["experts"]
    assert flash.weight_bytes["experts"] == pytest.approx(experts * 0.53125)
    assert flash.weight_bytes["qkv"] == pytest.approx(flash.architecture.parameters()["qkv"] * (1 + 4 / 16384))
    assert flash.weights_format == "fp8-block (experts mxfp4)"
    kimi = real(tmp_path, "moonshotai__Kimi-K3")
    assert kimi.weight_bytes["experts"] == pytest.approx(kimi.architecture.parameters()["experts"] * 0.53125)
    for role in ("qkv", "output", "shared_in", "mlp_in", "mlp_out", "lm_head"):
        assert kimi.weight_bytes[role] == pytest.approx(2 * kimi.architecture.parameters()[role]), role  # type: ignore[index]


@pytest.mark.parametrize(
    ("name", "per_weight"),
    # By the definition of each format: the element, and its share of the block's scale and zero point.
    [
        ("bf16", 2),
        ("fp32", 4),
        ("fp8", 1),
        ("fp8-block", 1 + 4 / 128**2),
        ("mxfp8", 1 + 1 / 32),
        ("int4", 0.5 + 2 / 128),
        ("int4-g64", 0.5 + 2 / 64),
        ("int4-g32", 0.5625),
        ("awq", 0.5 + 2.5 / 128),
        ("gptq", 0.5 + 2.5 / 128),
        ("nvfp4", 0.5625),
        ("mxfp4", 0.53125),
        ("nf4", 0.5625),
        ("q4_0", 18 / 32),
        ("q4_k", 144 / 256),
        ("q6_k", 210 / 256),
        ("q8_0", 34 / 32),
    ],
)
def test_formats_by_name(name: str, per_weight: float) -> None:
    assert formats.weights(name.upper()).bytes_per_element == pytest.approx(per_weight, rel=1e-12)


def test_unknown_formats_are_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match="nvfp4"):
        formats.weights("int3")
    with pytest.raises(UsageError, match="q8_0"):
        formats.kv_bytes("int3")


def test_a_side_file_beside_a_config_of_another_name(tmp_path: Path) -> None:
    folder = directory(tmp_path / "m")
    (folder / "config.json").rename(folder / "small.json")
    side = {"quantization": {"quant_algo": "FP8", "exclude_modules": ["lm_head"]}}
    (folder / "small.hf_quant_config.json").write_text(json.dumps(side))
    (folder / "hf_quant_config.json").write_text(json.dumps({"quantization": {"quant_algo": "NVFP4"}}))
    assert load(str(folder / "small.json")).weights_format == "fp8"
