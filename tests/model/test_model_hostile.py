"""Every key of every family turned into nonsense: an architecture, or one clear sentence, and never a long wait."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from phasewise.errors import InputError, UsageError
from phasewise.model.config import architecture

GOLDENS = json.loads((Path(__file__).parent / "oracle" / "goldens.json").read_text())["variants"]
BASES = {name: entry["config"] for name, entry in GOLDENS.items() if "," not in name}

ABSURD = (0, -1, 10**30, 10**9, 1.5, float("nan"), "x", True, None, [], {}, [1, 2], ["a"], [10**30], [None], [[1]], ...)
"""``...`` stands for a key that is not there."""


def paths(config: dict[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for key, value in config.items():
        yield (*above, key)
        if isinstance(value, dict):
            yield from paths(value, (*above, key))


@pytest.mark.parametrize("name", BASES)
def test_an_absurd_value_anywhere_is_counted_or_refused_in_one_sentence(name: str) -> None:
    config = BASES[name]
    image = (100, 100) if "vision_config" in config else None
    refused = 0
    for path in paths(config):
        for value in ABSURD:
            changed = copy.deepcopy(config)
            inside = changed
            for key in path[:-1]:
                inside = inside[key]
            if value is ...:
                del inside[path[-1]]
            else:
                inside[path[-1]] = value
            started = time.perf_counter()
            try:
                shape = architecture(changed, "config.json", image)
            except UsageError as error:
                refused += 1
                text = str(error)
                assert text.startswith("config.json")
                assert "\n" not in text
                assert text.isprintable()
                assert len(text) < 350, text
            else:
                assert sum(shape.parameters().values()) > 0
                assert all(block.count > 0 for block in shape.blocks)
            assert time.perf_counter() - started < 5
    assert refused > 3 * len(ABSURD)


@pytest.mark.parametrize(
    ("name", "changes", "said"),
    [
        ("qwen3_moe", {"num_experts_per_tok": 9}, "num_experts_per_tok must be at most num_experts"),
        ("mixtral", {"num_experts_per_tok": 5}, "must be at most num_local_experts"),
        ("nemotron_h", {"hybrid_override_pattern": "M*EX"}, "hybrid_override_pattern must be 4 letters"),
        ("nemotron_h", {"hybrid_override_pattern": "M*E"}, "hybrid_override_pattern must be 4 letters"),
        ("jamba", {"attn_layer_offset": 8}, "attn_layer_offset must be below attn_layer_period"),
        ("mllama", {"text_config": {"model_type": "mllama_text_model", "cross_attention_layers": [50]}}, "0 to 39"),
        ("deepseek_v4", {"compress_ratios": [0, 4, 5, 4]}, "compress_ratios must be a list of 0, 4 and 128"),
        ("qwen3_next", {"linear_num_value_heads": 5}, "linear_num_value_heads must be a multiple"),
        ("falcon", {"new_decoder_architecture": True, "num_kv_heads": 3}, "num_kv_heads must divide"),
        ("t5", {"feed_forward_proj": 7}, "feed_forward_proj must be the name of an activation"),
        ("bart", {"decoder_attention_heads": 3}, "not a multiple"),
        ("qwen3_5_text", {"layer_types": ["full_attention"] * 3}, "layer_types must be a list of 4 names"),
    ],
)
def test_contradictions_name_the_key(name: str, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as error:
        architecture({**BASES[name], **changes}, "config.json")
    assert said in str(error.value)


def test_a_family_never_passes_for_another() -> None:
    # Keys of a mixture, of latent attention or of a recurrence in a family that has none are refused by name.
    for name in ("llama", "gpt2", "bloom", "opt", "falcon", "cohere", "phi", "t5", "mamba"):
        for key, value in (("num_experts", 8), ("kv_lora_rank", 64), ("index_topk", 4), ("block_configs", [{}])):
            with pytest.raises(UsageError, match=f"{key}.*is not modelled yet"):
                architecture({**BASES[name], key: value}, "config.json")
    # In a mixture, a size that the family does not ask for is named.
    shape = architecture({**BASES["qwen3_moe"], "moe_latent_size": 32}, "config.json")
    assert shape.not_modelled == ("moe_latent_size: not understood (mixture of experts)",)
