"""DeepSeek-V4: compressed attention beside a window, hyper-connections, hash-routed first layers.

Keys and defaults: DeepseekV4Config of transformers 5.24, whose docstrings cite the paper.
"""

import msgspec

from phasewise.model.architecture import Architecture
from phasewise.model.families.deepseek import LATENT, SPARSE, prediction
from phasewise.model.families.family import Family, architecture, layers
from phasewise.model.families.moe import MOE, experts
from phasewise.model.keys import Keys
from phasewise.model.mixers.compressed import Compressed
from phasewise.model.mixers.indexer import Indexer
from phasewise.model.parts import Layer

_KINDS = {0: "sliding_attention", 4: "compressed_sparse_attention", 128: "heavily_compressed_attention"}


def _v4(keys: Keys) -> Architecture:
    count, hidden, streams = layers(keys), keys.count("hidden_size"), keys.count("hc_mult")
    moe = experts(
        keys,
        count="n_routed_experts",
        shared=(keys.optional("n_shared_experts", least=0) or 0) * keys.count("moe_intermediate_size"),
    )
    rates = _rates(keys)
    keys.optional("qk_rope_head_dim")  # says which elements of a head are rotated; changes neither weights nor work
    mixers = {kind: _mixer(keys, kind, rates) for kind in _KINDS.values()}
    # A hyper-connection before attention and one before the experts: a map of all streams, its bias, three scales.
    mixes = (2 + streams) * streams
    norms = 2 * hidden + 2 * (mixes * streams * hidden + mixes + 3)
    stacked: list[Layer] = [(mixers[kind], moe, norms) for kind in _layer_kinds(keys, count)]
    head = streams * streams * hidden + streams + 1
    shape = architecture(keys, "deepseek-v4", stacked, tied=False, final_norm=hidden + head)
    return msgspec.structs.replace(shape, prediction=prediction(keys, shape, copies=False))


def _layer_kinds(keys: Keys, count: int) -> list[str]:
    named = keys.words("layer_types", count, _KINDS.values())
    ratios = keys.numbers("compress_ratios", count)
    if named or ratios is None:
        return named or ["heavily_compressed_attention" if n < 2 or n % 2 == 0 else _KINDS[4] for n in range(count)]
    if not set(ratios) <= set(_KINDS):
        raise keys.error("compress_ratios", "must be a list of 0, 4 and 128")
    return [_KINDS[ratio] for ratio in ratios]


def _rates(keys: Keys) -> dict[str, int]:
    inside = keys.part("compress_rates")
    return {
        kind: keys.optional(name) or inside.optional(kind) or rate
        for rate, kind, name in ((4, _KINDS[4], "compress_rate_csa"), (128, _KINDS[128], "compress_rate_hca"))
    }


def _mixer(keys: Keys, kind: str, rates: dict[str, int]) -> Compressed:
    hidden, dim, q_rank = keys.count("hidden_size"), keys.count("head_dim"), keys.count("q_lora_rank")
    rate = rates.get(kind, 0)
    mixer = Compressed(
        heads=keys.count("num_attention_heads"),
        head_dim=dim,
        q_rank=q_rank,
        window=keys.count("sliding_window"),
        rate=rate,
        out_rank=keys.count("o_lora_rank"),
        out_groups=keys.count("o_groups"),
    )
    if not rate:
        return mixer
    # Sparse layers compress into two series that overlap, heavily compressed ones into one.
    series = 2 if kind == _KINDS[4] else 1
    mixer = msgspec.structs.replace(mixer, compressor=_compressor(hidden, series * dim, rate) + dim)
    if series == 1:
        return mixer
    heads, key = keys.count("index_n_heads"), keys.count("index_head_dim")
    indexer = Indexer(
        heads=heads,
        dim=key,
        keep=keys.count("index_topk"),
        every=rate,
        weights=_compressor(hidden, 2 * key, rate) + key + q_rank * heads * key + hidden * heads,
    )
    return msgspec.structs.replace(mixer, indexer=indexer)


def _compressor(hidden: int, width: int, rate: int) -> int:
    """Values and gates of ``width``, and a bias for each place in the window."""
    return 2 * hidden * width + rate * width


DEEPSEEK_V4 = Family(
    name="deepseek-v4",
    model_types=("deepseek_v4",),
    classes=("DeepseekV4ForCausalLM",),
    build=_v4,
    kinds=(MOE, LATENT, SPARSE),
)
