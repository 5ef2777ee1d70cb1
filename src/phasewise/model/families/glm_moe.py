"""GLM-4.5 and 4.6, and the text of GLM-4.5V: biases on Q, K, V, a dense first layer, routed and shared experts.

Keys and defaults: Glm4MoeConfig and Glm4vMoeTextConfig of transformers 5.24.
"""

import msgspec

from phasewise.model.architecture import Architecture
from phasewise.model.families.deepseek import prediction
from phasewise.model.families.family import Family, decoder
from phasewise.model.families.moe import MOE, after_dense, experts
from phasewise.model.keys import Keys


def _glm(keys: Keys) -> Architecture:
    moe = experts(
        keys,
        count="n_routed_experts",
        shared=(keys.optional("n_shared_experts", least=0) or 0) * keys.count("moe_intermediate_size"),
    )
    # A file of the text model alone is of a class without lm_head: the step is counted with one as large as the table.
    headless = keys.get("model_type") == "glm4v_moe_text" and not keys.nested and keys.get("architectures") is None
    shape = decoder(
        keys,
        "glm-4.5",
        tied=headless,
        qkv_bias=keys.flag("attention_bias"),
        qk_norm="per head" if keys.flag("use_qk_norm") else "no",
        mlp=after_dense(keys, moe, default=1),
    )
    return msgspec.structs.replace(shape, prediction=prediction(keys, shape))


def _convention(shape: Architecture) -> str:
    total = sum(shape.parameters().values()) - (0 if shape.tied else shape.table)
    return (
        f"the publisher's counts leave out tables: {shape.non_embedding / 1e9:.2f}e9 active without both, "
        f"{total / 1e9:.2f}e9 in all without lm_head ({(total + shape.table) / 1e9:.2f}e9 with it)"
    )


GLM_MOE = Family(
    name="glm-4.5",
    model_types=("glm4_moe", "glm4v_moe_text"),
    classes=("Glm4MoeForCausalLM",),
    build=_glm,
    nested={
        "vocab_size": 151424,
        "hidden_size": 4096,
        "intermediate_size": 10944,
        "num_hidden_layers": 46,
        "num_attention_heads": 96,
        "num_key_value_heads": 8,
        "max_position_embeddings": 65536,
        "moe_intermediate_size": 1408,
        "num_experts_per_tok": 8,
        "n_shared_experts": 1,
        "n_routed_experts": 128,
    },
    fill={"n_shared_experts": 1},
    kinds=(MOE,),
    convention=_convention,
    gguf=("glm4moe",),
)
