"""MiniMax M2 and M3: plain experts after full attention; M3 attends to chosen blocks of tokens.

Keys and defaults: MiniMaxM2Config and MiniMaxM3VLTextConfig of transformers 5.24.
"""

import msgspec

from phasewise.model.architecture import Architecture, Mlp
from phasewise.model.families.deepseek import SPARSE
from phasewise.model.families.family import Family, architecture, attention, decoder, layers
from phasewise.model.families.moe import MOE, experts
from phasewise.model.keys import Keys
from phasewise.model.mixers.indexer import Indexer
from phasewise.model.parts import Layer


def _m2(keys: Keys) -> Architecture:
    moe = experts(keys, count="num_local_experts", intermediate="intermediate_size")
    return decoder(keys, "minimax-m2", tied=False, qk_norm="all heads", mlp=lambda layer: moe)


def _m3(keys: Keys) -> Architecture:
    count, hidden = layers(keys), keys.count("hidden_size")
    full = attention(keys, qk_norm="per head", head_dim=128)
    sparse = msgspec.structs.replace(full, indexer=_indexer(keys, hidden))
    shared, times = keys.optional("shared_intermediate_size", least=0) or 0, keys.optional("n_shared_experts", least=0)
    moe = experts(
        keys,
        count="num_local_experts",
        intermediate="intermediate_size" if keys.get("moe_intermediate_size") is None else "moe_intermediate_size",
        shared=shared if times is None else shared * times,
    )
    dense = Mlp(intermediate=keys.count("dense_intermediate_size"))
    mixes = keys.numbers("moe_layer_freq", count) or [1] * count
    mixed = keys.words("mlp_layer_types", count, ("dense", "sparse")) or ["sparse" if n else "dense" for n in mixes]
    chooses = keys.part("sparse_attention_config").numbers("sparse_attention_freq", count) or [0] * count
    kinds = keys.words("layer_types", count, ("full_attention", "minimax_m3_sparse")) or [
        "minimax_m3_sparse" if n else "full_attention" for n in chooses
    ]
    stacked: list[Layer] = [
        (
            sparse if kinds[number] == "minimax_m3_sparse" else full,
            moe if mixed[number] == "sparse" else dense,
            2 * hidden,
        )
        for number in range(count)
    ]
    return architecture(keys, "minimax-m3", stacked, tied=False)


def _indexer(keys: Keys, hidden: int) -> Indexer:
    inside = keys.part("sparse_attention_config")

    def count(name: str, nested: str, default: int) -> int:
        return inside.optional(nested) or keys.optional(name) or default

    heads, dim = count("index_n_heads", "sparse_num_index_heads", 4), count("index_head_dim", "sparse_index_dim", 128)
    block = count("index_block_size", "sparse_block_size", 128)
    return Indexer(
        heads=heads,
        dim=dim,
        keep=block * count("index_topk_blocks", "sparse_topk_blocks", 16),
        weights=hidden * heads * dim + hidden * dim + 2 * dim,
    )


MINIMAX_M2 = Family(
    name="minimax-m2",
    model_types=("minimax_m2",),
    classes=("MiniMaxM2ForCausalLM",),
    build=_m2,
    kinds=(MOE,),
    gguf=("minimax-m2",),
)

MINIMAX_M3 = Family(
    name="minimax-m3",
    model_types=("minimax_m3", "minimax_m3_vl_text"),
    classes=("MiniMaxM3ForCausalLM",),
    build=_m3,
    nested={
        "vocab_size": 200064,
        "hidden_size": 6144,
        "intermediate_size": 3072,
        "num_hidden_layers": 60,
        "num_attention_heads": 64,
        "num_key_value_heads": 4,
        "max_position_embeddings": 524288,
        "num_experts_per_tok": 4,
        "num_local_experts": 128,
        "dense_intermediate_size": 12288,
        "shared_intermediate_size": 3072,
    },
    kinds=(MOE, SPARSE),
)
