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
    file = write(tmp_path / "tiny.gguf", "llama", **{"general.name": "what the packer wrote"})
    assert {load(text).name for text in (str(file), f"gguf:{file}")} == {"tiny"}
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


@pytest.mark.parametrize("text", ["gguf:", "hf:"])
def test_a_prefix_alone_names_no_file(text: str) -> None:
    with pytest.raises(UsageError, match="names no file"):
        load(text)
