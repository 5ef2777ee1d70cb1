"""Llama-Nemotron (DeciLM): a searched architecture whose ``block_configs`` say what each layer is.

Rules: configuration_decilm.py and modeling_decilm.py of nvidia/Llama-3_3-Nemotron-Super-49B-v1, from memory; the total
agrees with the published size.
"""

from phasewise.model.architecture import Architecture, Attention, Mlp
from phasewise.model.families.family import Family, architecture, divided, layers
from phasewise.model.families.qwen_next import MIXED
from phasewise.model.keys import Keys
from phasewise.model.parts import FeedForward, Layer, Mixer, NoFeedForward, NoMixer, Weights


class LinearMixer(Mixer, frozen=True, kw_only=True):
    """A square matrix in place of attention."""

    def parameters(self, hidden: int) -> Weights:
        """d²."""
        return {"qkv": hidden * hidden}


class LinearFeedForward(FeedForward, frozen=True, kw_only=True):
    """A square matrix in place of the MLP."""

    def parameters(self, hidden: int) -> Weights:
        """d²."""
        return {"mlp_in": hidden * hidden}


def _deci(keys: Keys) -> Architecture:
    count, blocks = layers(keys), keys.get("block_configs")
    if not isinstance(blocks, list) or len(blocks) != count or not all(isinstance(b, dict) for b in blocks):
        raise keys.error("block_configs", f"must be a list of {count} objects")
    return architecture(
        keys,
        "llama-nemotron",
        [_layer(keys, Keys(block, f"{keys.where}: block {n}")) for n, block in enumerate(blocks)],
        tied=False,
    )


def _layer(keys: Keys, block: Keys) -> Layer:
    hidden = keys.count("hidden_size")
    mixer, mlp = _mixer(keys, block.part("attention")), _mlp(keys, block.part("ffn"))
    norms = (0 if isinstance(mixer, NoMixer) else 1) + (0 if isinstance(mlp, NoFeedForward) else 1)
    return mixer, mlp, norms * hidden


def _mixer(keys: Keys, part: Keys) -> Mixer:
    hidden, heads = keys.count("hidden_size"), keys.count("num_attention_heads")
    if part.flag("no_op"):
        return NoMixer()
    if part.flag("replace_with_linear"):
        return LinearMixer()
    group = part.optional("n_heads_in_group")
    kv_heads = part.optional("num_key_value_heads") or (heads // group if group and heads % group == 0 else None)
    if kv_heads is None:
        raise part.error("n_heads_in_group", f"must divide the {heads} heads")
    head_dim = keys.optional("head_dim") or divided(keys, hidden, heads)
    bias = keys.flag("attention_bias")
    return Attention(
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        window=part.optional("window_length"),
        qkv_bias=bias,
        output_bias=bias,
    )


def _mlp(keys: Keys, part: Keys) -> FeedForward:
    hidden = keys.count("hidden_size")
    if part.flag("no_op"):
        return NoFeedForward()
    if part.flag("replace_with_linear"):
        return LinearFeedForward()
    size = part.optional("intermediate_size")
    if size is None:
        factor = part.get("ffn_mult")
        if not isinstance(factor, int | float) or isinstance(factor, bool) or not 0 < factor < 1000:
            raise part.error("ffn_mult", "must be a number above 0")
        size = -(-int(2 * factor * hidden / 3) // 256) * 256
    return Mlp(intermediate=size, bias=keys.flag("mlp_bias"))


DECI = Family(
    name="llama-nemotron",
    model_types=("nemotron-nas", "deci"),
    classes=("DeciLMForCausalLM",),
    build=_deci,
    kinds=(MIXED,),
)
