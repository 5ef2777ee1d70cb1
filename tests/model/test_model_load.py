"""MODEL on the command line → Model: what may be named, in which format it is counted, and who says so."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from model_gguf_files import HIDDEN, VOCAB, Q, shapes, write

from phasewise.errors import InputError, UsageError
from phasewise.model.load import load

SMALL: dict[str, Any] = {
    "model_type": "qwen3",
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "vocab_size": 1000,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
BODY = 2 * (256 * 256 * 2 + 2 * 256 * 128 + 3 * 256 * 512)
HEAD = 2 * 1000 * 256 + 5 * 256 + 2 * 2 * 64
"""Two tables, five norms, and query and key norms: what quantisers leave in 16 bit."""


def directory(path: Path, **changes: Any) -> Path:
    path.mkdir(exist_ok=True)
    (path / "config.json").write_text(json.dumps(SMALL | changes))
    return path


def test_a_model_may_be_named_in_each_way(tmp_path: Path) -> None:
    folder = directory(tmp_path / "My-Model")
    names = {load(text).name for text in (str(folder), f"hf:{folder}", str(folder / "config.json"))}
    assert names == {"My-Model"}
    other = tmp_path / "other.json"
    other.write_text(json.dumps(SMALL))
    assert load(str(other)).name == "other"
    file = write(tmp_path / "tiny.gguf", "llama", **{"general.name": "Tiny \x1b[31mmodel"})
    assert {load(text).name for text in (str(file), f"gguf:{file}")} == {"Tiny [31mmodel"}
    renamed = file.rename(tmp_path / "blob-without-suffix")
    assert load(str(renamed)).weights_format == "f32"
    alone = tmp_path / "alone"
    alone.mkdir()
    write(alone / "only.gguf", "llama")
    (alone / "mmproj-only.gguf").write_bytes(b"GGUF")
    assert load(str(alone)).source.startswith("only.gguf")


def test_a_catalogue_name_wins_over_a_folder_of_that_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    directory(Path("llama-3-8b"))
    assert load("llama-3-8b").parameters == 8_030_261_248
    assert load("./llama-3-8b").parameters == load("hf:llama-3-8b").parameters == BODY + HEAD


def test_sources_do_not_tell_where_the_user_keeps_files(tmp_path: Path) -> None:
    folder = directory(tmp_path / "m")
    for model in (load(str(folder)), load(str(write(tmp_path / "m.gguf", "llama")))):
        assert str(tmp_path) not in model.source


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        ("nothing.json", InputError, "nothing.json is no file to read"),
        ("/nowhere/at/all", InputError, "is no file to read"),
        ("gguf:nothing", InputError, "is no file to read"),
        ("hf:meta-llama/Meta-Llama-3-8B", InputError, "is no file to read"),
        ("lama-3-8b", UsageError, "did you mean llama-3-8b"),
        ("x\0y", UsageError, "is no model in the catalogue"),
        ("gguf:" + "x" * 5000, InputError, "is no file to read"),
    ],
)
def test_nothing_of_that_name(text: str, kind: type[Exception], said: str) -> None:
    with pytest.raises(kind, match=said) as error:
        load(text)
    assert str(error.value).isprintable()


def test_folders_without_a_model_or_with_several(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"holds no config\.json and no \.gguf file"):
        load(str(tmp_path))
    write(tmp_path / "a.gguf", "llama")
    write(tmp_path / "b.gguf", "llama")
    with pytest.raises(UsageError, match=r"2 GGUF files \(a\.gguf, b\.gguf\): name one"):
        load(str(tmp_path))


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "config.json")
    for text in (str(tmp_path), str(tmp_path / "config.json"), f"gguf:{tmp_path / 'config.json'}"):
        with pytest.raises(InputError):
            load(text)


def test_nothing_in_a_model_folder_is_executed(tmp_path: Path) -> None:
    folder = directory(tmp_path / "m", auto_map={"AutoConfig": "configuration.Evil"})
    (folder / "configuration.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    load(str(folder))
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("keys", "weights", "kv", "provenance"),
    [
        ({}, "bf16", "bf16", "datasheet"),
        ({"torch_dtype": "float16"}, "fp16", "fp16", "datasheet"),
        ({"torch_dtype": "torch.bfloat16"}, "bf16", "bf16", "datasheet"),
        ({"torch_dtype": None, "dtype": "float16"}, "fp16", "fp16", "datasheet"),
        ({"torch_dtype": "float32"}, "bf16", "bf16", "assumed"),
        ({"torch_dtype": None}, "bf16", "bf16", "assumed"),
        ({"torch_dtype": ["x"]}, "bf16", "bf16", "assumed"),
    ],
)
def test_the_dtype_gives_the_format(
    tmp_path: Path, keys: dict[str, Any], weights: str, kv: str, provenance: str
) -> None:
    model = load(str(directory(tmp_path / "m", **keys)))
    assert (model.weights_format, model.kv_format, model.provenance) == (weights, kv, provenance)
    assert model.resident_bytes == 2 * (BODY + HEAD)
    assert ("assumed)," in model.source) == (provenance == "assumed")


def test_flags_win(tmp_path: Path) -> None:
    folder = directory(tmp_path / "m", quantization_config={"quant_method": "fp8"})
    model = load(str(folder), weights="int4", kv="fp8")
    assert (model.weights_format, model.kv_format, model.provenance) == ("int4", "fp8", "assumed")
    assert model.resident_bytes == BODY * (0.5 + 2 / 128) + 2 * HEAD
    assert model.kv_bytes_per_token == 2 * 2 * 2 * 64
    assert model.source.endswith("weights in int4 (as --weights says), KV cache in fp8 (as --kv says)")
    file = write(tmp_path / "m.gguf", "qwen3")
    assert load(str(file), weights="bf16").resident_bytes == 2 * load(str(file)).parameters
    assert load(str(file), weights="bf16").provenance == "assumed"
    for flags in ({"weights": "int3"}, {"kv": "q9"}):
        with pytest.raises(UsageError, match="not a known format"):
            load(str(folder), **flags)


GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 128}
TENSORS = {"num_bits": 8, "type": "float"}


@pytest.mark.parametrize(
    ("quantization", "name", "per_weight", "best"),
    [
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8", 1.0, "fp8"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "nvfp4", 0.5625, "fp4"),
        (GPTQ, "int4", 0.5 + 2.5 / 128, "bf16"),
        (GPTQ | {"group_size": 32}, "int4", 0.5 + 2.5 / 32, "bf16"),
        (GPTQ | {"group_size": -1}, "int4", 0.5, "bf16"),
        (GPTQ | {"bits": 8}, "int8", 1 + 3 / 128, "bf16"),
        ({"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}, "int4", 0.5 + 2.5 / 128, "bf16"),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"group_0": {"weights": TENSORS, "input_activations": TENSORS}},
                "ignore": ["lm_head"],
            },
            "fp8",
            1.0,
            "fp8",
        ),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"g": {"weights": {"num_bits": 4, "type": "int", "group_size": 128}}},
            },
            "int4",
            0.5 + 2 / 128,
            "bf16",
        ),
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
        {"quant_method": "bitsandbytes", "load_in_4bit": True},
        {"quant_method": "gptq", "bits": 3, "group_size": 128},
        {"quant_method": "gptq", "bits": [4], "group_size": 0},
        {"quant_method": "gptq", "bits": True, "group_size": 128},
        {"quant_method": "compressed-tensors", "config_groups": {"a": {}, "b": {}}},
        {"quant_method": "compressed-tensors", "config_groups": [1]},
        {"quant_method": ["x"], "quant_algo": {"y": 1}},
        {"nothing": 1},
    ],
)
def test_quantisation_that_cannot_be_expressed_is_named(tmp_path: Path, quantization: dict[str, Any]) -> None:
    model = load(str(directory(tmp_path / "m", quantization_config=quantization)))
    assert model.weights_format == "bf16"
    (named,) = model.architecture.not_modelled
    assert named.startswith("quantisation by ")


def test_layers_that_a_quantiser_left_alone_are_named(tmp_path: Path) -> None:
    ignored = ["lm_head", "model.norm", "model.layers.0.self_attn.q_proj", "model.layers.1.mlp.down_proj"]
    quantization = {"quant_method": "fp8", "modules_to_not_convert": ignored}
    model = load(str(directory(tmp_path / "m", quantization_config=quantization)))
    (named,) = model.architecture.not_modelled
    assert named.endswith("counted as fp8: model.layers.0.self_attn.q_proj, model.layers.1.mlp.down_proj")


def test_a_side_file_of_modelopt_counts(tmp_path: Path) -> None:
    folder = directory(tmp_path / "m")
    side = {"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]}}
    (folder / "hf_quant_config.json").write_text(json.dumps(side))
    model = load(str(folder))
    assert (model.weights_format, model.kv_format) == ("fp8", "fp8")
    assert model.resident_bytes == BODY + 2 * HEAD


MATMULS = ("ffn_down", "ffn_up", "ffn_gate", "attn_q", "attn_k", "attn_v", "attn_output", "output")


@pytest.mark.parametrize(
    ("kinds", "name", "compute"),
    [
        ({}, "f32", ("fp32",)),
        (dict.fromkeys(MATMULS, Q.F16), "f16 (mixed: f16, f32)", ("fp16", "fp32")),
        (dict.fromkeys(MATMULS, Q.BF16), "bf16 (mixed: bf16, f32)", ("bf16", "fp32")),
        (dict.fromkeys(MATMULS, Q.Q4_0), "q4_0 (mixed: q4_0, f32)", ("int8", "fp16", "bf16", "fp32")),
        (dict.fromkeys(MATMULS[:1], Q.Q8_0), "f32 (mixed: f32, q8_0)", ("fp32",)),
    ],
)
def test_gguf_formats_go_by_bytes(tmp_path: Path, kinds: dict[str, Q], name: str, compute: tuple[str, ...]) -> None:
    model = load(str(write(tmp_path / "m.gguf", "llama", kinds=kinds)))
    assert model.compute == compute
    assert model.kv_format == "fp16"
    assert model.provenance == "measured"
    assert model.weights_format == name


def test_a_large_embedding_does_not_say_what_the_matmuls_compute_in(tmp_path: Path) -> None:
    tensors = shapes("llama") | {"token_embd.weight": (4000, HIDDEN), "output.weight": (4000, HIDDEN)}
    model = load(str(write(tmp_path / "m.gguf", "llama", tensors=tensors, kinds=dict.fromkeys(MATMULS, Q.Q4_0))))
    assert model.weights_format == "f32 (mixed: f32, q4_0)"
    assert model.compute[0] == "int8"


def test_facts_carry_provenance(tmp_path: Path) -> None:
    facts = load(str(write(tmp_path / "m.gguf", "llama"))).facts()
    assert facts.weight_bytes.provenance == "measured"
    assert facts.embedding_parameters == VOCAB * HIDDEN
    assert load("llama-3-8b").facts().weight_bytes.provenance == "datasheet"
