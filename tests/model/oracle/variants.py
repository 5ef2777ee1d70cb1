"""Small configs of every family, with the keys turned that change a count. The oracle instantiates each of them."""

from __future__ import annotations

from typing import Any

DENSE = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 320,
    "max_position_embeddings": 128,
    "tie_word_embeddings": False,
}
GPT = {"n_embd": 64, "n_layer": 3, "n_head": 4, "n_positions": 128, "vocab_size": 320}
MOE = DENSE | {"head_dim": 24, "num_experts_per_tok": 2, "moe_intermediate_size": 48}
FEW = {"head_dim": 24, "num_local_experts": 4, "num_experts_per_tok": 2}
LATENT = MOE | {
    "n_routed_experts": 8,
    "n_shared_experts": 1,
    "first_k_dense_replace": 1,
    "kv_lora_rank": 32,
    "q_lora_rank": 48,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 8,
    "v_head_dim": 20,
    "n_group": 1,
    "topk_group": 1,
}
DELTA = {
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 24,
    "linear_conv_kernel_dim": 4,
}

Families = dict[str, tuple[dict[str, Any], list[dict[str, Any]]]]
"""A config of each ``model_type``, and what is turned in it."""

FAMILIES: Families = {
    "llama": (DENSE, [{"attention_bias": True}, {"mlp_bias": True}, {"head_dim": 24}, {"tie_word_embeddings": True}]),
    "granite": (DENSE, [{"attention_bias": True, "mlp_bias": True}]),
    "mistral": (DENSE, [{"head_dim": 24}]),
    "ministral3": (DENSE | {"head_dim": 24}, []),
    "qwen2": (DENSE, []),
    "qwen3": (DENSE | {"head_dim": 24}, [{"attention_bias": True}]),
    "phi3": (DENSE | {"pad_token_id": 1}, []),
    "gemma": (DENSE | {"head_dim": 24, "tie_word_embeddings": True}, [{"attention_bias": True}]),
    "gemma2": (DENSE | {"head_dim": 24, "tie_word_embeddings": True}, [{"attention_bias": True}]),
    "gemma3_text": (DENSE | {"head_dim": 24, "tie_word_embeddings": True}, [{"attention_bias": True}]),
    "olmo2": (DENSE, [{"attention_bias": True}]),
    "olmo3": (DENSE, [{"attention_bias": True}]),
    "starcoder2": (DENSE, [{"use_bias": False}]),
    "cohere": (DENSE, [{"use_qk_norm": True}, {"attention_bias": True}, {"tie_word_embeddings": True}]),
    "cohere2": (DENSE, [{"attention_bias": True}]),
    "stablelm": (DENSE, [{"use_qkv_bias": True}, {"qk_layernorm": True}, {"use_parallel_residual": True}]),
    "phi": (DENSE, [{"qk_layernorm": True}]),
    "gpt_neox": (DENSE, [{"attention_bias": False}, {"tie_word_embeddings": True}]),
    "gpt2": (GPT, [{"n_inner": 100}, {"tie_word_embeddings": False}]),
    "gptj": (GPT | {"rotary_dim": 8}, [{"n_inner": 100}]),
    "gpt_bigcode": (GPT, [{"multi_query": False}, {"n_inner": 100}]),
    "bloom": ({"hidden_size": 64, "n_layer": 3, "n_head": 4, "vocab_size": 320}, []),
    "opt": (
        DENSE | {"ffn_dim": 96},
        [{"word_embed_proj_dim": 48}, {"enable_bias": False}, {"do_layer_norm_before": False}],
    ),
    "falcon": (
        DENSE,
        [
            {"multi_query": False},
            {"new_decoder_architecture": True, "num_kv_heads": 2},
            {"new_decoder_architecture": True, "num_kv_heads": 2, "num_ln_in_parallel_attn": 1},
            {"parallel_attn": False, "bias": True, "ffn_hidden_size": 100},
        ],
    ),
    "mixtral": (DENSE | {"num_local_experts": 4, "num_experts_per_tok": 2}, [{"head_dim": 24}]),
    "qwen2_moe": (
        MOE | {"num_experts": 8, "shared_expert_intermediate_size": 80},
        [{"decoder_sparse_step": 2}, {"mlp_only_layers": [0]}, {"qkv_bias": False}],
    ),
    "qwen3_moe": (MOE | {"num_experts": 8}, [{"decoder_sparse_step": 2}, {"mlp_only_layers": [1, 2]}]),
    "gpt_oss": (
        DENSE | {"head_dim": 24, "num_local_experts": 4, "num_experts_per_tok": 2},
        [{"attention_bias": False}],
    ),
    "glm4_moe": (
        MOE | {"n_routed_experts": 8, "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1},
        [{"attention_bias": True}, {"use_qk_norm": True}, {"first_k_dense_replace": 3}, {"n_shared_experts": 2}],
    ),
    "deepseek_v2": (LATENT, [{"q_lora_rank": None}, {"n_shared_experts": 2}]),
    "deepseek_v3": (LATENT, [{"q_lora_rank": None}, {"attention_bias": True}, {"first_k_dense_replace": 0}]),
    "deepseek_v32": (LATENT | {"index_n_heads": 4, "index_head_dim": 16, "index_topk": 32}, []),
    "glm_moe_dsa": (
        LATENT | {"index_n_heads": 4, "index_head_dim": 16, "index_topk": 32},
        [{"index_topk_freq": 2}, {"index_topk_pattern": "FFSS"}, {"index_topk_freq": 2, "index_skip_topk_offset": 1}],
    ),
    "deepseek_v4": (
        {key: value for key, value in MOE.items() if key != "intermediate_size"}
        | {
            "n_routed_experts": 8,
            "n_shared_experts": 1,
            "q_lora_rank": 48,
            "qk_rope_head_dim": 8,
            "hc_mult": 2,
            "o_groups": 2,
            "o_lora_rank": 16,
            "index_n_heads": 4,
            "index_head_dim": 16,
            "index_topk": 32,
            "num_hash_layers": 1,
            "sliding_window": 16,
            "compress_ratios": [0, 4, 128, 4, 0],
            "num_key_value_heads": 1,
        },
        [{"compress_ratios": [128, 128, 4, 0, 0]}],
    ),
    "minimax_m2": (DENSE | FEW, []),
    "minimax_m3_vl_text": (
        DENSE
        | {
            "head_dim": 24,
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
            "dense_intermediate_size": 128,
            "shared_intermediate_size": 80,
            "moe_layer_freq": [0, 1, 1, 1],
            "sparse_attention_config": {
                "sparse_attention_freq": [0, 1, 1, 0],
                "sparse_num_index_heads": 2,
                "sparse_index_dim": 16,
                "sparse_block_size": 8,
                "sparse_topk_blocks": 4,
            },
        },
        [],
    ),
    "llama4_text": (
        DENSE | {"head_dim": 24, "intermediate_size_mlp": 128, "num_local_experts": 4, "num_experts_per_tok": 1},
        [{"interleave_moe_layer_step": 2}, {"moe_layers": [3]}, {"attention_bias": True}],
    ),
    "qwen3_next": (
        MOE | DELTA | {"num_experts": 8, "shared_expert_intermediate_size": 80},
        [{"full_attention_interval": 2}, {"attention_bias": True}, {"decoder_sparse_step": 2}],
    ),
    "qwen3_5_text": (DENSE | DELTA | {"head_dim": 24}, [{"full_attention_interval": 2}]),
    "qwen3_5_moe_text": (MOE | DELTA | {"num_experts": 8, "shared_expert_intermediate_size": 80}, []),
    "kimi_linear": (
        {key: value for key, value in LATENT.items() if key not in ("num_experts_per_tok", "n_routed_experts")}
        | {
            "num_experts": 8,
            "num_experts_per_token": 2,
            "n_shared_experts": 1,
            "pad_token_id": 1,
            "linear_attn_config": {
                "full_attn_layers": [2, 4],
                "kda_layers": [1, 3],
                "head_dim": 16,
                "num_heads": 3,
                "short_conv_kernel_size": 4,
            },
        },
        [{"q_lora_rank": None}],
    ),
    "nemotron_h": (
        MOE
        | {
            "hybrid_override_pattern": "M*E-",
            "mamba_num_heads": 4,
            "mamba_head_dim": 16,
            "ssm_state_size": 16,
            "n_groups": 2,
            "conv_kernel": 4,
            "n_routed_experts": 8,
            "n_shared_experts": 1,
            "moe_shared_expert_intermediate_size": 80,
            "n_group": 1,
            "topk_group": 1,
        },
        [
            {"moe_latent_size": 32},
            {"attention_bias": True},
            {"mlp_bias": True},
            {"use_conv_bias": False},
            {"mamba_proj_bias": True, "use_bias": True},
            {"hybrid_override_pattern": "MMMM"},
        ],
    ),
    "jamba": (
        DENSE
        | {
            "num_hidden_layers": 8,
            "num_experts": 4,
            "num_experts_per_tok": 2,
            "mamba_d_state": 16,
            "mamba_d_conv": 4,
            "mamba_expand": 2,
            "mamba_dt_rank": 4,
        },
        [{"mamba_conv_bias": False}, {"mamba_proj_bias": True}, {"mamba_dt_rank": "auto"}, {"num_experts": 1}],
    ),
    "mamba": (
        {"hidden_size": 64, "num_hidden_layers": 3, "state_size": 16, "conv_kernel": 4, "vocab_size": 320},
        [{"expand": 3}, {"time_step_rank": 5}, {"use_bias": True}, {"use_conv_bias": False}],
    ),
    "falcon_mamba": (
        {"hidden_size": 64, "num_hidden_layers": 3, "state_size": 16, "conv_kernel": 4, "vocab_size": 320},
        [{"tie_word_embeddings": False}],
    ),
    "mamba2": (
        {
            "hidden_size": 64,
            "num_hidden_layers": 3,
            "state_size": 16,
            "conv_kernel": 4,
            "vocab_size": 320,
            "num_heads": 8,
            "head_dim": 16,
            "n_groups": 2,
        },
        [{"use_bias": True}, {"use_conv_bias": False}],
    ),
    "rwkv": (
        {"hidden_size": 64, "num_hidden_layers": 3, "vocab_size": 320, "context_length": 128},
        [{"attention_hidden_size": 48}, {"intermediate_size": 100}],
    ),
    "smollm3": (DENSE | {"pad_token_id": 1}, [{"attention_bias": True}, {"mlp_bias": True}]),
    "seed_oss": (DENSE | {"head_dim": 24}, [{"attention_bias": False}, {"attention_out_bias": True}]),
    "ernie4_5": (DENSE | {"head_dim": 24}, [{"use_bias": True}]),
    "hunyuan_v1_dense": (DENSE | {"head_dim": 24, "pad_token_id": 1}, [{"attention_bias": True}]),
    "exaone4": (DENSE, []),
    "glm": (DENSE | {"head_dim": 24, "pad_token_id": 1}, [{"attention_bias": False}]),
    "glm4": (DENSE | {"head_dim": 24, "pad_token_id": 1}, [{"attention_bias": False}]),
    "nemotron": (DENSE, [{"attention_bias": True}, {"mlp_bias": True}, {"head_dim": 24}]),
    "olmo": (DENSE, [{"attention_bias": True}]),
    "olmoe": (DENSE | {"num_experts": 8, "num_experts_per_tok": 2}, [{"attention_bias": True}]),
    "phimoe": (
        DENSE | {"num_local_experts": 4, "num_experts_per_tok": 2},
        [{"attention_bias": True}, {"lm_head_bias": True}],
    ),
    "granitemoe": (DENSE | {"num_local_experts": 4, "num_experts_per_tok": 2}, [{"attention_bias": True}]),
    "granitemoeshared": (
        DENSE | {"num_local_experts": 4, "num_experts_per_tok": 2, "shared_intermediate_size": 80},
        [],
    ),
    "ernie4_5_moe": (
        DENSE | {"moe_num_experts": 8, "moe_k": 2, "moe_intermediate_size": 48, "moe_num_shared_experts": 2},
        [{"moe_layer_start_index": 2}, {"moe_layer_end_index": 2}, {"moe_layer_interval": 2}, {"use_bias": True}],
    ),
    "glm4_moe_lite": (
        {key: value for key, value in LATENT.items() if key != "head_dim"},
        [{"q_lora_rank": None}, {"mlp_layer_types": ["dense", "dense", "sparse", "sparse"]}],
    ),
    "mimo_v2_flash": (
        MOE | {"n_routed_experts": 8, "v_head_dim": 16, "n_group": 1, "topk_group": 1},
        [{"attention_bias": True}, {"layer_types": ["full_attention"] * 2 + ["sliding_attention"] * 2}],
    ),
    "gemma4_text": (
        DENSE
        | {
            "head_dim": 24,
            "global_head_dim": 32,
            "hidden_size_per_layer_input": 16,
            "vocab_size_per_layer_input": 320,
            "num_hidden_layers": 6,
            "layer_types": ["sliding_attention", "sliding_attention", "full_attention"] * 2,
            "tie_word_embeddings": True,
        },
        [
            {"attention_k_eq_v": True, "num_global_key_value_heads": 1},
            {"hidden_size_per_layer_input": 0},
            {"num_kv_shared_layers": 3},
            {"num_kv_shared_layers": 3, "use_double_wide_mlp": True},
            {"enable_moe_block": True, "num_experts": 8, "top_k_experts": 2, "moe_intermediate_size": 48},
        ],
    ),
    "t5": (
        {"d_model": 64, "d_kv": 16, "d_ff": 96, "num_layers": 3, "num_heads": 4, "vocab_size": 320},
        [{"feed_forward_proj": "gated-gelu"}, {"num_decoder_layers": 2}, {"relative_attention_num_buckets": 8}],
    ),
    "mt5": ({"d_model": 64, "d_kv": 16, "d_ff": 96, "num_layers": 3, "num_heads": 4, "vocab_size": 320}, []),
    "bart": (
        {
            "d_model": 64,
            "encoder_layers": 3,
            "decoder_layers": 2,
            "encoder_attention_heads": 4,
            "decoder_attention_heads": 2,
            "encoder_ffn_dim": 96,
            "decoder_ffn_dim": 80,
            "max_position_embeddings": 128,
            "vocab_size": 320,
        },
        [],
    ),
    "whisper": (
        {
            "d_model": 64,
            "encoder_layers": 3,
            "decoder_layers": 2,
            "encoder_attention_heads": 4,
            "decoder_attention_heads": 2,
            "encoder_ffn_dim": 96,
            "decoder_ffn_dim": 80,
            "max_source_positions": 150,
            "max_target_positions": 44,
            "num_mel_bins": 8,
            "vocab_size": 320,
            "pad_token_id": 1,
        },
        [],
    ),
}
