"""T5, T5 v1.1, Flan-T5 and mT5: an encoder and a decoder without biases, relative positions in the first layers.

Keys and defaults: T5Config of transformers 5.24. That version always ties lm_head; the checkpoints of files that say
``tie_word_embeddings: false`` hold one, and it is counted.
"""

from phasewise.model.architecture import Architecture, Attention, Mlp, Tower
from phasewise.model.families.family import Family, architecture, layers
from phasewise.model.keys import LAYERS, Keys
from phasewise.model.mixers.cross import Cross
from phasewise.model.parts import Layer

ENCODER = "an encoder"


def _t5(keys: Keys) -> Architecture:
    hidden, heads, dim = keys.count("hidden_size"), keys.count("num_attention_heads"), keys.count("head_dim")
    kind = keys.get("feed_forward_proj")
    if not isinstance(kind, str):
        raise keys.error("feed_forward_proj", "must be the name of an activation")
    mlp = Mlp(intermediate=keys.count("d_ff"), gated=kind.startswith("gated-"))
    own = Attention(heads=heads, kv_heads=heads, head_dim=dim)
    cross = Cross(own=own, heads=heads, kv_heads=heads, head_dim=dim)
    stacked: list[Layer] = [(cross, mlp, 3 * hidden)] * (keys.optional("num_decoder_layers", LAYERS) or layers(keys))
    buckets = keys.count("relative_attention_num_buckets") * heads
    return architecture(
        keys,
        "t5",
        stacked,
        tied=True,
        final_norm=hidden + buckets,
        context="n_positions",
        encoder=encoder(own, mlp, layers(keys), hidden, 2 * hidden, outside=hidden + buckets),
    )


def encoder(own: Attention, mlp: Mlp, count: int, hidden: int, norms: int, outside: int) -> Tower:
    """An encoder of ``count`` layers on the prompt; ``outside`` is weights outside its layers."""
    layer = sum(own.parameters(hidden).values()) + sum(mlp.parameters(hidden).values()) + norms
    return Tower(
        name="encoder",
        parameters=count * layer + outside,
        matmul=count * layer,
        width=count * own.heads * own.head_dim,
    )


T5 = Family(
    name="t5",
    model_types=("t5",),
    classes=("T5ForConditionalGeneration",),
    build=_t5,
    fill={"head_dim": 64, "feed_forward_proj": "relu", "relative_attention_num_buckets": 32},
    aliases={
        "hidden_size": "d_model",
        "num_attention_heads": "num_heads",
        "num_hidden_layers": "num_layers",
        "head_dim": "d_kv",
    },
    kinds=(ENCODER,),
)

MT5 = T5._replace(
    name="mt5",
    model_types=("mt5",),
    classes=("MT5ForConditionalGeneration",),
    fill={**T5.fill, "feed_forward_proj": "gated-gelu"},
)
