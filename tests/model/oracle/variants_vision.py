"""Small configs of models with a vision tower, as in variants.py."""

from __future__ import annotations

from typing import Any

from variants import DENSE, FAMILIES, MOE, Families

VIT = {"depth": 4, "hidden_size": 32, "intermediate_size": 48, "num_heads": 4, "out_hidden_size": 64}

TOWERS: Families = {
    "qwen2_vl": (
        {
            "text_config": DENSE | {"model_type": "qwen2_vl_text"},
            "vision_config": {"depth": 3, "embed_dim": 32, "hidden_size": 64, "num_heads": 4, "mlp_ratio": 4},
            "tie_word_embeddings": False,
        },
        [],
    ),
    "qwen2_5_vl": (
        {"text_config": DENSE | {"model_type": "qwen2_5_vl_text"}, "vision_config": VIT, "tie_word_embeddings": False},
        [],
    ),
    "qwen3_vl": (
        {
            "text_config": DENSE | {"model_type": "qwen3_vl_text", "head_dim": 24},
            "vision_config": VIT | {"deepstack_visual_indexes": [1, 2], "num_position_embeddings": 64},
            "tie_word_embeddings": False,
        },
        [],
    ),
    "qwen3_vl_moe": (
        {
            "text_config": MOE | {"model_type": "qwen3_vl_moe_text", "num_experts": 8},
            "vision_config": VIT | {"deepstack_visual_indexes": [1], "num_position_embeddings": 64},
            "tie_word_embeddings": False,
        },
        [],
    ),
    "gemma3": (
        {
            "text_config": DENSE | {"model_type": "gemma3_text", "head_dim": 24, "tie_word_embeddings": True},
            "vision_config": {
                "model_type": "siglip_vision_model",
                "hidden_size": 32,
                "intermediate_size": 48,
                "num_hidden_layers": 3,
                "num_attention_heads": 4,
                "image_size": 56,
                "patch_size": 14,
                "vision_use_head": False,
            },
            "mm_tokens_per_image": 4,
        },
        [],
    ),
    "llava": (
        {
            "text_config": DENSE | {"model_type": "llama"},
            "vision_config": {
                "model_type": "clip_vision_model",
                "hidden_size": 32,
                "intermediate_size": 48,
                "num_hidden_layers": 3,
                "num_attention_heads": 4,
                "image_size": 56,
                "patch_size": 14,
            },
            "tie_word_embeddings": False,
        },
        [],
    ),
    "llama4": (
        {
            "pad_token_id": 1,
            "text_config": DENSE
            | {
                "model_type": "llama4_text",
                "head_dim": 24,
                "intermediate_size_mlp": 128,
                "num_local_experts": 4,
                "num_experts_per_tok": 1,
            },
            "vision_config": {
                "hidden_size": 32,
                "intermediate_size": 128,
                "num_hidden_layers": 3,
                "num_attention_heads": 4,
                "image_size": 56,
                "patch_size": 14,
                "projector_input_dim": 40,
                "projector_output_dim": 40,
                "vision_output_dim": 40,
            },
        },
        [],
    ),
    "mllama": (
        {
            "text_config": DENSE
            | {"model_type": "mllama_text_model", "cross_attention_layers": [1, 3], "pad_token_id": 1},
            "vision_config": {
                "hidden_size": 32,
                "intermediate_size": 48,
                "num_hidden_layers": 3,
                "num_global_layers": 2,
                "attention_heads": 4,
                "image_size": 56,
                "patch_size": 14,
                "max_num_tiles": 4,
                "vision_output_dim": 64,
                "intermediate_layers_indices": [1],
                "supported_aspect_ratios": [[1, 1], [1, 2], [1, 3], [1, 4], [2, 1], [2, 2], [3, 1], [4, 1]],
            },
        },
        [],
    ),
}


def configs() -> dict[str, dict[str, Any]]:
    """Each family's config and its variants, by a name that says what is turned."""
    found = {}
    for kind, (base, turned) in {**FAMILIES, **TOWERS}.items():
        for change in ({}, *turned):
            name = ", ".join([kind, *(f"{key}={value}" for key, value in change.items())])
            found[name] = {"model_type": kind, **base, **change}
    return found
