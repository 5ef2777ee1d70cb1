"""DeepSeek V2, V3, R1 and V3.2, Kimi K2 and GLM-5: latent attention, routed and shared experts, dense first layers.

V3.2 and GLM-5 choose the tokens they attend to with an indexer. Keys and defaults: DeepseekV2Config, DeepseekV3Config,
DeepseekV32Config and GlmMoeDsaConfig of transformers 5.24; prediction layers: README_WEIGHTS.md of DeepSeek-V3.
"""

import msgspec

from phasewise.model.architecture import Architecture
from phasewise.model.families.family import Family, architecture, layers
from phasewise.model.families.moe import MOE, after_dense, experts
from phasewise.model.keys import LAYERS, Keys
from phasewise.model.mixers.indexer import Indexer
from phasewise.model.mixers.latent import Latent
from phasewise.model.parts import Layer

LATENT, SPARSE = "latent attention", "sparse attention"


def latent(keys: Keys) -> Latent:
    """Latent attention by DeepSeek's keys."""
    heads, bias = keys.count("num_attention_heads"), keys.flag("attention_bias")
    q_rank, kv_rank, rope = keys.optional("q_lora_rank"), keys.count("kv_lora_rank"), keys.count("qk_rope_head_dim")
    return Latent(
        heads=heads,
        q_rank=q_rank,
        kv_rank=kv_rank,
        nope=keys.count("qk_nope_head_dim"),
        rope=rope,
        value=keys.count("v_head_dim"),
        bias=(q_rank or 0) + kv_rank + rope + keys.count("hidden_size") if bias else 0,
    )


def _v3(keys: Keys) -> Architecture:
    return _shape(keys, "deepseek", [latent(keys)] * layers(keys))


def _v2(keys: Keys) -> Architecture:
    # The class gives V2 no bias on the output of its routers; V3 keeps a correction bias that is a buffer, no weight.
    return _shape(keys, "deepseek-v2", [latent(keys)] * layers(keys))


def _v32(keys: Keys) -> Architecture:
    mixer = latent(keys)
    heads, dim, hidden = keys.count("index_n_heads"), keys.count("index_head_dim"), keys.count("hidden_size")
    indexer = Indexer(
        heads=heads,
        dim=dim,
        keep=keys.count("index_topk"),
        weights=(mixer.q_rank or hidden) * heads * dim + hidden * dim + hidden * heads + 2 * dim,
    )
    own = msgspec.structs.replace(mixer, indexer=indexer)
    # A "shared" layer attends to what the last full layer's indexer chose: no scores, no indexer of its own.
    lent = msgspec.structs.replace(mixer, indexer=msgspec.structs.replace(indexer, weights=0, heads=0, own_keys=False))
    types = keys.words("indexer_types", layers(keys), ("full", "shared")) or _indexers(keys)
    return _shape(keys, "deepseek-v3.2", [lent if kind == "shared" else own for kind in types])


def _indexers(keys: Keys) -> list[str]:
    """GlmMoeDsaConfig's pattern, or its frequency; every layer has one when neither is given."""
    count, pattern = layers(keys), keys.get("index_topk_pattern")
    if isinstance(pattern, str) and len(pattern) >= count and set(pattern) <= {"F", "S"}:
        return [{"F": "full", "S": "shared"}[letter] for letter in pattern[:count]]
    every = keys.optional("index_topk_freq", LAYERS) or 1
    offset = keys.optional("index_skip_topk_offset", LAYERS, least=0)
    offset = 2 if offset is None else offset
    return ["full" if max(layer - offset + 1, 0) % every == 0 else "shared" for layer in range(count)]


def _glm_lite(keys: Keys) -> Architecture:
    return _shape(keys, "glm-4.7-flash", [latent(keys)] * layers(keys), first=1)


def _shape(keys: Keys, family: str, mixers: list[Latent], first: int = 0) -> Architecture:
    hidden = keys.count("hidden_size")
    moe = experts(
        keys,
        count="n_routed_experts",
        shared=(keys.optional("n_shared_experts", least=0) or 0) * keys.count("moe_intermediate_size"),
    )
    mlp = after_dense(keys, moe, default=first)
    stacked: list[Layer] = [(mixer, mlp(number), 2 * hidden) for number, mixer in enumerate(mixers)]
    shape = architecture(keys, family, stacked, tied=False)
    return msgspec.structs.replace(shape, prediction=prediction(keys, shape))


def prediction(keys: Keys, shape: Architecture, copies: bool = True) -> int:
    """Weights of prediction layers: each a layer like the last, a 2d × d projection, norms, and its own tables."""
    count = keys.optional("num_nextn_predict_layers", LAYERS, least=0) or 0
    block, hidden = shape.blocks[-1], shape.hidden
    layer = sum(block.mixer.parameters(hidden).values()) + sum(block.mlp.parameters(hidden).values())
    tables = 2 * shape.vocab * hidden if copies else 0
    return count * (layer + block.norm_weights + 2 * hidden * hidden + 3 * hidden + tables)


def _kimi(shape: Architecture) -> str:
    active = sum(shape.active().values()) - shape.parameters()["embedding"]
    return f"of Kimi K2 the publisher says 32e9 active: {active / 1e9:.2f}e9 without the input embedding"


_NESTED = {
    "vocab_size": 129280,
    "hidden_size": 7168,
    "intermediate_size": 18432,
    "moe_intermediate_size": 2048,
    "num_hidden_layers": 61,
    "num_attention_heads": 128,
    "n_routed_experts": 256,
    "num_experts_per_tok": 8,
    "kv_lora_rank": 512,
    "q_lora_rank": 1536,
    "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128,
    "v_head_dim": 128,
    "first_k_dense_replace": 3,
    "max_position_embeddings": 4096,
}

DEEPSEEK_V2 = Family(
    name="deepseek-v2",
    model_types=("deepseek_v2",),
    classes=("DeepseekV2ForCausalLM",),
    build=_v2,
    fill={"n_shared_experts": 1},
    kinds=(MOE, LATENT),
)

DEEPSEEK = Family(
    name="deepseek-v3",
    model_types=("deepseek_v3",),
    classes=("DeepseekV3ForCausalLM",),
    build=_v3,
    nested=_NESTED,
    fill={"n_shared_experts": 1},
    kinds=(MOE, LATENT),
    gguf=("deepseek2",),
)

KIMI_K2 = Family(
    name="kimi-k2",
    model_types=("kimi_k2",),
    classes=(),
    build=_v3,
    nested=_NESTED,
    fill={"n_shared_experts": 1},
    kinds=(MOE, LATENT),
    convention=_kimi,
)

DEEPSEEK_V32 = Family(
    name="deepseek-v3.2",
    model_types=("deepseek_v32", "glm_moe_dsa"),
    classes=("DeepseekV32ForCausalLM", "GlmMoeDsaForCausalLM"),
    build=_v32,
    fill={"n_shared_experts": 1},
    kinds=(MOE, LATENT, SPARSE),
)

GLM_LITE = Family(
    name="glm-4.7-flash",
    model_types=("glm4_moe_lite",),
    classes=("Glm4MoeLiteForCausalLM",),
    build=_glm_lite,
    fill={"n_shared_experts": 1},
    kinds=(MOE, LATENT),
)
