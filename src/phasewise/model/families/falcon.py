"""Falcon 7B, 40B, 180B and 11B: one or few key and value heads, attention and MLP side by side, plain MLPs.

Keys and defaults: FalconConfig of transformers 5.24; ``RWForCausalLM`` is its first name.
"""

from phasewise.model.architecture import Architecture, Attention, Mlp
from phasewise.model.families.family import Family, architecture, divided, layers
from phasewise.model.keys import Keys
from phasewise.model.parts import Layer


def _falcon(keys: Keys) -> Architecture:
    hidden, heads, bias = keys.count("hidden_size"), keys.count("num_attention_heads"), keys.flag("bias")
    new = keys.flag("new_decoder_architecture")
    kv_heads = keys.optional("num_kv_heads") or heads
    if not new:
        kv_heads = 1 if keys.flag("multi_query", True) else heads
    if heads % kv_heads:
        raise keys.error("num_kv_heads", f"must divide num_attention_heads ({heads})")
    mixer = Attention(
        heads=heads,
        kv_heads=kv_heads,
        head_dim=divided(keys, hidden, heads),
        qkv_bias=bias,
        output_bias=bias,
    )
    mlp = Mlp(intermediate=keys.optional("ffn_hidden_size") or 4 * hidden, gated=False, bias=bias)
    parallel = keys.flag("parallel_attn", True)
    norms = (keys.optional("num_ln_in_parallel_attn") or 2) if new and parallel else 1 if parallel else 2
    stacked: list[Layer] = [(mixer, mlp, 2 * hidden * norms)] * layers(keys)
    return architecture(keys, "falcon", stacked, tied=True, final_norm=2 * hidden)


def _convention(shape: Architecture) -> str:
    own = sum(shape.parameters().values()) + (shape.vocab * shape.hidden if shape.tied else 0)
    return f"published checkpoints hold a copy of the tied lm_head: {own / 1e9:.2f}e9"


FALCON = Family(
    name="falcon",
    model_types=("falcon", "RefinedWebModel", "RefinedWeb"),
    classes=("FalconForCausalLM", "RWForCausalLM"),
    build=_falcon,
    fill={"multi_query": True, "new_decoder_architecture": False, "parallel_attn": True, "bias": False},
    aliases={
        "num_hidden_layers": "n_layer",
        "num_attention_heads": "n_head",
        "num_kv_heads": "n_head_kv",
        "hidden_size": "n_embed",
    },
    convention=_convention,
)
