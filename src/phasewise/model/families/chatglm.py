"""ChatGLM 2 and 3 and GLM-4 9B: grouped queries by ``multi_query_group_num``, SwiGLU, RMSNorm.

Keys: configuration_chatglm.py of THUDM/chatglm3-6b, from memory.
"""

from phasewise.model.architecture import Architecture, Attention, Mlp
from phasewise.model.families.family import Family, architecture, layers
from phasewise.model.keys import Keys
from phasewise.model.parts import Layer


def _chatglm(keys: Keys) -> Architecture:
    hidden, heads, bias = keys.count("hidden_size"), keys.count("num_attention_heads"), keys.flag("add_bias_linear")
    kv_heads = keys.count("multi_query_group_num") if keys.flag("multi_query_attention") else heads
    if heads % kv_heads:
        raise keys.error("multi_query_group_num", f"must divide num_attention_heads ({heads})")
    mixer = Attention(
        heads=heads,
        kv_heads=kv_heads,
        head_dim=keys.count("kv_channels"),
        qkv_bias=bias or keys.flag("add_qkv_bias"),
        output_bias=bias,
    )
    norm = hidden if keys.flag("rmsnorm", True) else 2 * hidden
    stacked: list[Layer] = [(mixer, Mlp(intermediate=keys.count("ffn_hidden_size"), bias=bias), 2 * norm)]
    return architecture(
        keys,
        "chatglm",
        stacked * layers(keys),
        tied=False,
        final_norm=norm if keys.flag("post_layer_norm", True) else 0,
        vocab="padded_vocab_size",
        context="seq_length",
    )


CHATGLM = Family(
    name="chatglm",
    model_types=("chatglm",),
    classes=("ChatGLMModel", "ChatGLMForConditionalGeneration"),
    build=_chatglm,
    aliases={"num_hidden_layers": "num_layers"},
)
