"""config.json → architecture: exact totals, window patterns, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasewise.errors import InputError, UsageError
from phasewise.model.architecture import Architecture, Attention
from phasewise.model.config import architecture, read

LLAMA = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "tie_word_embeddings": False,
}


def shape(**changes: Any) -> Architecture:
    config = {key: value for key, value in (LLAMA | changes).items() if value is not ...}
    return architecture(config, "config.json")


def total(model: Architecture) -> int:
    return sum(model.parameters().values())


def windows(model: Architecture) -> dict[int | None, int]:
    return {block.mixer.window: block.count for block in model.blocks if isinstance(block.mixer, Attention)}


def test_llama_3_8b_by_hand() -> None:
    # 32 layers of 2·4096·4096 (Q, O) + 2·4096·1024 (K, V) + 3·4096·14336, 65 norms, two tables of 128256 x 4096.
    layer = 2 * 4096**2 + 2 * 4096 * 1024 + 3 * 4096 * 14336
    assert total(shape()) == 32 * layer + 65 * 4096 + 2 * 128256 * 4096 == 8_030_261_248
    assert shape().non_embedding == 32 * layer + 65 * 4096


def test_head_dim_is_its_own_key_and_kv_heads_default_to_heads() -> None:
    wide = shape(head_dim=256)
    assert wide.blocks[0].mixer.head_dim == 256
    assert shape(num_key_value_heads=...).blocks[0].mixer.kv_heads == 32
    assert shape(num_key_value_heads=None).blocks[0].mixer.kv_heads == 32


UNTIED = ("llama", "mistral", "qwen2", "qwen3", "phi3", "olmo2")
TIED = ("gemma", "gemma2", "gemma3_text", "starcoder2")


@pytest.mark.parametrize(("model_type", "tied"), [(name, name in TIED) for name in UNTIED + TIED])
def test_an_unstated_tie_is_the_class_default(model_type: str, tied: bool) -> None:
    assert shape(model_type=model_type, tie_word_embeddings=...).tied is tied
    assert shape(model_type=model_type, tie_word_embeddings=not tied).tied is not tied


def test_biases_and_norms_by_family() -> None:
    plain = total(shape(model_type="mistral"))
    qkv = 4096 + 2 * 1024
    assert total(shape(attention_bias=True)) - plain == 32 * (qkv + 4096)
    assert total(shape(mlp_bias=True)) - plain == 32 * (2 * 14336 + 4096)
    assert total(shape(model_type="qwen2")) - plain == 32 * qkv
    assert total(shape(model_type="qwen3")) - plain == 32 * 2 * 128
    assert total(shape(model_type="phi3", attention_bias=True)) == plain
    assert total(shape(model_type="olmo2")) - plain == 32 * (4096 + 1024)
    assert total(shape(model_type="gemma2", head_dim=128)) - total(shape(model_type="gemma", head_dim=128)) == 64 * 4096


def test_gemma_head_dim_is_256_unless_stated_and_never_a_quotient() -> None:
    assert shape(model_type="gemma").blocks[0].mixer.head_dim == 256


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"model_type": "llama", "sliding_window": 4096}, {None: 32}),
        ({"model_type": "mistral"}, {4096: 32}),
        ({"model_type": "mistral", "sliding_window": None}, {None: 32}),
        ({"model_type": "mistral", "sliding_window": 1000}, {1000: 32}),
        ({"model_type": "phi3", "sliding_window": 2047}, {2047: 32}),
        ({"model_type": "phi3"}, {None: 32}),
        ({"model_type": "qwen2", "sliding_window": 9, "use_sliding_window": False}, {None: 32}),
        (
            {"model_type": "qwen2", "sliding_window": 9, "use_sliding_window": True, "max_window_layers": 30},
            {None: 30, 9: 2},
        ),
        ({"model_type": "qwen3", "sliding_window": 9, "use_sliding_window": True, "max_window_layers": 0}, {9: 32}),
        ({"model_type": "gemma2"}, {4096: 16, None: 16}),
        ({"model_type": "gemma3_text", "sliding_window": 512}, {512: 27, None: 5}),
        ({"model_type": "gemma3_text", "sliding_window": 512, "sliding_window_pattern": 4}, {512: 24, None: 8}),
        ({"model_type": "olmo3"}, {4096: 24, None: 8}),
        (
            {"model_type": "gemma2", "layer_types": ["full_attention"] * 31 + ["sliding_attention"]},
            {None: 31, 4096: 1},
        ),
    ],
)
def test_sliding_windows(keys: dict[str, Any], expected: dict[int | None, int]) -> None:
    assert windows(shape(**keys)) == expected


def test_a_vision_model_counts_its_text_and_names_the_tower() -> None:
    outer = {"model_type": "some_vlm", "text_config": LLAMA, "vision_config": {"depth": 3}}
    model = architecture(outer, "config.json")
    assert total(model) == 8_030_261_248
    assert len(model.not_modelled) == 1
    assert model.not_modelled[0].startswith("vision_config")


@pytest.mark.parametrize(
    ("text", "outer", "tied"),
    [(..., ..., False), (..., True, True), (True, ..., True), (True, False, True), (False, True, False)],
)
def test_the_tie_of_a_vision_model(text: Any, outer: Any, tied: bool) -> None:
    inner = {key: value for key, value in (LLAMA | {"tie_word_embeddings": text}).items() if value is not ...}
    config = {"model_type": "llava", "text_config": inner} | ({} if outer is ... else {"tie_word_embeddings": outer})
    assert architecture(config, "config.json").tied is tied


def test_prediction_layers_are_named() -> None:
    assert shape(num_nextn_predict_layers=1).not_modelled == (
        "num_nextn_predict_layers: layers for multi-token prediction",
    )
    assert shape(num_nextn_predict_layers=0).not_modelled == ()


def test_a_nested_config_leaves_out_class_defaults_and_a_top_level_one_does_not() -> None:
    # llava-1.5-7b-hf states of its Llama text model only what is not LlamaConfig's default.
    text = {"model_type": "llama", "vocab_size": 32064, "max_position_embeddings": 4096}
    nested = architecture(
        {"model_type": "llava_next", "text_config": text, "tie_word_embeddings": False}, "config.json"
    )
    assert total(nested) == 6_738_415_616 + 2 * 64 * 4096
    with pytest.raises(InputError, match=r"config\.json: num_hidden_layers is missing"):
        architecture(text, "config.json")


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        ({"num_local_experts": 8}, r"mixture of experts \(num_local_experts\)"),
        ({"n_routed_experts": 64, "moe_intermediate_size": 1408}, "mixture of experts"),
        ({"kv_lora_rank": 512}, r"latent attention \(kv_lora_rank\)"),
        ({"mamba_d_state": 16}, "state-space"),
        ({"is_encoder_decoder": True}, "an encoder"),
        ({"cross_attention_layers": [3]}, "cross-attention"),
        ({"block_configs": [{}]}, "mixed kinds"),
        ({"model_type": "nobody_knows", "num_experts": 4}, r"model_type 'nobody_knows'.*num_experts"),
        ({"model_type": "xlnet"}, r"model_type 'xlnet' is not modelled yet: modelled are llama"),
        (
            {"model_type": "qwen3", "layer_types": ["linear_attention"] * 32, "use_sliding_window": True},
            "linear_attention",
        ),
        ({"model_type": ..., "architectures": ["XLNetLMHeadModel"]}, "XLNetLMHeadModel"),
    ],
)
def test_what_is_not_dense_is_never_counted_as_dense(keys: dict[str, Any], named: str) -> None:
    with pytest.raises(UsageError, match=named):
        shape(**keys)


def test_empty_expert_keys_do_not_make_a_mixture() -> None:
    assert total(shape(num_local_experts=None, num_experts=0, moe_layers=[], is_encoder_decoder=False)) == total(
        shape()
    )


def test_a_config_without_model_type_is_known_by_its_class() -> None:
    known = shape(model_type=..., architectures=["LlamaForCausalLM"])
    assert msgspec.structs.replace(known, notes=()) == shape()
    assert "model_type (known by architectures)" in known.notes[0]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("num_hidden_layers", 0),
        ("num_hidden_layers", 10**6),
        ("num_hidden_layers", ...),
        ("hidden_size", -1),
        ("hidden_size", 10**30),
        ("hidden_size", float("nan")),
        ("hidden_size", [4096]),
        ("hidden_size", {"a": 1}),
        ("hidden_size", "4096"),
        ("hidden_size", True),
        ("hidden_size", 4095),
        ("num_attention_heads", 0),
        ("num_key_value_heads", 7),
        ("num_key_value_heads", 64),
        ("head_dim", 0),
        ("head_dim", 1.5),
        ("vocab_size", None),
        ("tie_word_embeddings", "yes"),
        ("attention_bias", 1),
        ("max_position_embeddings", -5),
        ("model_type", ...),
        ("text_config", []),
    ],
)
def test_absurd_values_name_the_file_and_the_key(key: str, value: object) -> None:
    with pytest.raises(InputError) as error:
        shape(**{key: value})
    text = str(error.value)
    assert text.startswith("config.json: ")
    assert key in text
    assert "\n" not in text
    assert len(text) < 250


@pytest.mark.parametrize("model_type", ["mistral", "gemma2"])
@pytest.mark.parametrize(
    ("key", "value"),
    [("sliding_window", 0), ("sliding_window", "x"), ("layer_types", ["full_attention"]), ("layer_types", 3)],
)
def test_absurd_windows(model_type: str, key: str, value: object) -> None:
    with pytest.raises(InputError, match=key):
        shape(model_type=model_type, **{key: value})


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"[1]", "a list, not a JSON object"),
        (b"null", "None, not a JSON object"),
        (b"\xff\xfe\x00x", "not JSON"),
        (b'{"a": 1' + b"0" * 5000 + b"}", "not JSON"),
        (b"[" * 200_000, "nested too deeply"),
        (b" " * (16 * 2**20 + 1), "larger than 16 MB"),
    ],
)
def test_a_file_that_is_no_config(tmp_path: Path, data: bytes, said: str) -> None:
    file = tmp_path / "config.json"
    file.write_bytes(data)
    with pytest.raises(InputError, match=said):
        read(file)


def test_a_missing_file_and_a_byte_order_mark_and_duplicate_keys(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a file"):
        read(tmp_path / "config.json")
    file = tmp_path / "config.json"
    file.write_bytes(b"\xef\xbb\xbf" + b'{"hidden_size": 1, ' + json.dumps(LLAMA).encode()[1:])
    assert total(architecture(read(file), "config.json")) == 8_030_261_248


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=8), children, max_size=3),
    max_leaves=6,
)
KEYS = [*LLAMA, "head_dim", "sliding_window", "layer_types", "text_config", "architectures", "use_sliding_window"]


@given(
    st.dictionaries(st.sampled_from(KEYS), JSON, max_size=4),
    st.sampled_from(["llama", "mistral", "qwen3", "gemma3_text", "phi3", "starcoder2", "olmo2"]),
)
def test_any_json_gives_an_architecture_or_one_sentence(changes: dict[str, Any], model_type: str) -> None:
    try:
        model = architecture({**LLAMA, "model_type": model_type, **changes}, "config.json")
    except UsageError as error:
        text = str(error)
    else:
        text = "counted"
        assert total(model) > 0
        assert model.layers == sum(block.count for block in model.blocks)
    assert "\n" not in text
    assert text.isprintable()
