"""Tensors of a GGUF file → architecture and bytes per role."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import msgspec
import pytest
from model_gguf_files import FFN, HEAD_DIM, HEADS, HIDDEN, KV, LAYERS, VOCAB, WINDOW, Q, shapes, write

from phasewise.errors import InputError, UsageError
from phasewise.model import config
from phasewise.model.gguf import read_header
from phasewise.model.load import load
from phasewise.model.tensors import architecture, bytes_by_role

# The same model as config.json: read by other code from other keys, it must give the same architecture.
CONFIG: dict[str, Any] = {
    "hidden_size": HIDDEN,
    "intermediate_size": FFN,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV,
    "head_dim": HEAD_DIM,
    "vocab_size": VOCAB,
    "max_position_embeddings": 512,
}
AS_CONFIG = {
    "llama": {"model_type": "llama"},
    "qwen2": {"model_type": "qwen2"},
    "qwen3": {"model_type": "qwen3", "tie_word_embeddings": True},
    "phi3": {"model_type": "phi3", "sliding_window": WINDOW},
    "gemma": {"model_type": "gemma"},
    "gemma2": {"model_type": "gemma2", "sliding_window": WINDOW},
    "gemma3": {"model_type": "gemma3_text", "sliding_window": WINDOW},
    "olmo2": {"model_type": "olmo2"},
    "starcoder2": {"model_type": "starcoder2"},
}


@pytest.mark.parametrize("arch", AS_CONFIG)
def test_each_family_reads_the_same_from_gguf_and_from_config(tmp_path: Path, arch: str) -> None:
    shape = architecture(read_header(write(tmp_path / "m.gguf", arch)), "m.gguf")
    assert shape == config.architecture(CONFIG | AS_CONFIG[arch], "config.json")
    assert shape.not_modelled == ()


@pytest.mark.parametrize("arch", AS_CONFIG)
def test_parameters_and_bytes_are_those_of_the_tensors(tmp_path: Path, arch: str) -> None:
    path = write(tmp_path / "m.gguf", arch, kinds={"ffn_down": Q.Q4_0, "attn_output": Q.Q8_0, "token_embd": Q.F16})
    tensors = [tensor for tensor in gguf.GGUFReader(path).tensors if tensor.name != "rope_freqs.weight"]
    model = load(str(path))
    assert model.parameters == sum(int(tensor.n_elements) for tensor in tensors)
    assert model.resident_bytes == sum(int(tensor.n_bytes) for tensor in tensors)
    assert model.weight_bytes["mlp_out"] >= LAYERS * HIDDEN * FFN // 32 * 18
    assert model.weight_bytes["embedding"] == VOCAB * HIDDEN * 2
    assert model.head_bytes == (VOCAB * HIDDEN * (4 if "output.weight" in shapes(arch) else 2))
    assert set(model.weight_bytes) == set(model.architecture.parameters())


def test_layers_may_differ(tmp_path: Path) -> None:
    tensors = shapes("llama")
    tensors |= {"blk.3.attn_k.weight": (HEADS * HEAD_DIM, HIDDEN), "blk.3.attn_v.weight": (HEADS * HEAD_DIM, HIDDEN)}
    heads = [HEADS if layer == 3 else KV for layer in range(LAYERS)]
    path = write(tmp_path / "m.gguf", "llama", tensors=tensors, **{"attention.head_count_kv": heads})
    shape = architecture(read_header(path), "m.gguf")
    assert [(block.mixer.kv_heads, block.count) for block in shape.blocks] == [(KV, LAYERS - 1), (HEADS, 1)]


def test_a_tensor_nobody_knows_is_named_with_its_bytes(tmp_path: Path) -> None:
    tensors = shapes("llama") | {"blk.0.attn_sunk.weight": (1024,)}
    header = read_header(write(tmp_path / "m.gguf", "llama", tensors=tensors))
    (named,) = architecture(header, "m.gguf").not_modelled
    assert named == "1 tensors of 4.10 kB: blk.0.attn_sunk.weight"
    assert (
        sum(bytes_by_role(header, LAYERS).values()) == sum(t.bytes for t in header.tensors) - 4096 - HEAD_DIM // 2 * 4
    )


def test_a_window_that_the_family_does_not_know_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "m.gguf", "qwen2", **{"attention.sliding_window": 48})
    assert architecture(read_header(path), "m.gguf").not_modelled == (
        "a sliding window of 48 tokens: attention is counted in full",
    )


def test_a_stated_window_pattern_wins(tmp_path: Path) -> None:
    path = write(tmp_path / "m.gguf", "gemma3", **{"attention.sliding_window_pattern": 3})
    blocks = architecture(read_header(path), "m.gguf").blocks
    assert {block.mixer.window: block.count for block in blocks} == {WINDOW: 4, None: 2}


def without(arch: str, *names: str) -> dict[str, tuple[int, ...]]:
    return {name: shape for name, shape in shapes(arch).items() if not name.endswith(names)}


WRONG: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "unknown family": ({"arch": "mamba"}, UsageError, "'mamba' is not modelled yet: modelled are llama"),
    "experts by metadata alone": ({"expert_count": 8}, InputError, "must be 0 in a file that holds no experts"),
    "some experts": (
        {"tensors": shapes("llama") | {"blk.0.ffn_gate_exps.weight": (4, FFN, HIDDEN)}},
        InputError,
        "experts weights",
    ),
    "an adapter": ({"general.type": "adapter"}, InputError, "no language model"),
    "a part": ({"split.count": 3}, InputError, "one of 3 parts"),
    "vocabulary only": ({"tensors": {}}, InputError, "no token embedding"),
    "too few blocks": ({"block_count": 7}, InputError, "block_count is 7 but the file holds 6"),
    "a missing projection": ({"tensors": without("llama", "2.attn_v.weight")}, InputError, "block 2 holds .* qkv"),
    "a missing output": ({"tensors": without("llama", "2.ffn_down.weight")}, InputError, "block 2 has no ffn_down"),
    "other heads": ({"attention.head_count": 6}, InputError, "head_count must divide the 128 columns"),
    "kv heads that do not divide": ({"attention.head_count_kv": 3}, InputError, "head_count_kv must divide"),
    "kv heads that do not fit": ({"attention.head_count_kv": 4}, InputError, "qkv weights"),
    "too short a list of heads": ({"attention.head_count_kv": [2] * 3}, InputError, "head_count_kv"),
    "zero heads": ({"attention.head_count": 0}, InputError, "head_count must be a whole number"),
    "another width": ({"embedding_length": 65}, InputError, "embedding_length must be 64"),
    "a text for a number": ({"block_count": "six"}, InputError, "block_count must be a whole number"),
    "another head": (
        {"tensors": shapes("llama") | {"output.weight": (VOCAB + 1, HIDDEN)}},
        InputError,
        "not as large as the token embedding",
    ),
    "a flat matrix": (
        {"tensors": shapes("llama") | {"blk.1.ffn_up.weight": (FFN * HIDDEN,)}},
        InputError,
        "is no matrix",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_dense_model_or_contradicts_itself_is_refused(tmp_path: Path, name: str) -> None:
    changes, kind, said = WRONG[name]
    arch = changes.get("arch", "llama")
    rest = {key: value for key, value in changes.items() if key != "arch"}
    if arch != "llama":
        rest["tensors"] = shapes("llama")
    with pytest.raises(kind, match=said) as error:
        load(str(write(tmp_path / "m.gguf", arch, **rest)))
    assert type(error.value) is kind
    assert str(error.value).startswith("m.gguf")
    assert "\n" not in str(error.value)


def test_the_bundled_model_is_smollm2() -> None:
    from test_model_gguf import bundled

    model = load(str(bundled()))
    catalogue = load("smollm2-135m")
    assert model.parameters == 134_515_008
    assert model.architecture.parameters()["embedding"] == 28_311_552
    assert model.architecture.non_embedding == 106_203_456
    assert model.architecture == msgspec.structs.replace(catalogue.architecture, not_modelled=())
    assert model.kv_bytes_per_token == 23_040
    assert model.resident_bytes == 96_576_768  # sum of GGUFReader's n_bytes, once
    assert model.head_bytes == 28_311_552 // 32 * 34
    assert model.weights_format == "q4_1 (mixed: q4_1, q8_0, f32)"
    assert model.compute == ("int8", "fp16", "bf16", "fp32")
    assert (model.provenance, model.kv_format) == ("measured", "fp16")
