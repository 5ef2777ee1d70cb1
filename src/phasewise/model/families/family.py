"""What a family of models is, and the builder that dense decoders share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

from phasewise.errors import InputError, UsageError
from phasewise.model.architecture import Architecture, Attention, Block, Mlp
from phasewise.model.keys import LAYERS, Keys, written

Windows = tuple[int | None, ...]
"""The sliding window of each layer, None for full attention."""


class Family(NamedTuple):
    """One family of models.

    Attributes:
        name: as shown.
        model_types: values of ``model_type`` in config.json.
        classes: entries of ``architectures``, for the configs that have no ``model_type``.
        build: from the keys of config.json to the architecture.
        nested: what the config class of transformers fills in. It leaves such values out of a nested ``text_config``
            (a top-level config always states them), so they count there and only there.
        gguf: values of ``general.architecture`` in GGUF files.
        full_every: which layers a GGUF's window spares: 2 is every second layer, 0 none of them. None: no windows.
    """

    name: str
    model_types: tuple[str, ...]
    classes: tuple[str, ...]
    build: Callable[[Keys], Architecture]
    nested: Mapping[str, int] = {}
    gguf: tuple[str, ...] = ()
    full_every: int | None = None


def decoder(
    keys: Keys,
    family: str,
    *,
    tied: bool,
    windows: Callable[[Keys, int], Windows] | None = None,
    qkv_bias: bool = False,
    output_bias: bool = False,
    mlp_bias: bool = False,
    gated: bool = True,
    qk_norm: Literal["no", "per head", "all heads"] = "no",
    norms: int = 2,
    norm_bias: bool = False,
    head_dim: int | None = None,
) -> Architecture:
    """A dense decoder from Hugging Face keys.

    Args:
        keys: of the (text) config.
        family: as shown.
        tied: whether lm_head is the embedding when the file does not say.
        windows: sliding window per layer; None for full attention everywhere.
        qkv_bias: biases on the query, key and value projections.
        output_bias: a bias on the attention's output projection.
        mlp_bias: biases in the MLP.
        gated: gate, up and down projections, else up and down.
        qk_norm: norms of queries and keys: one weight per element of a head, or of all heads together.
        norms: layer norms per block.
        norm_bias: LayerNorm (weight and bias) in place of RMSNorm (weight).
        head_dim: where the file does not say; None is hidden_size / num_attention_heads.
    """
    hidden, layers = keys.count("hidden_size"), keys.count("num_hidden_layers", LAYERS)
    heads = keys.count("num_attention_heads")
    kv_heads = keys.optional("num_key_value_heads") or heads
    head_dim = keys.optional("head_dim") or head_dim or _divided(keys, hidden, heads)
    if heads % kv_heads:
        raise keys.error("num_key_value_heads", f"must divide num_attention_heads ({heads})")
    qk_weights = {"no": 0, "per head": 2 * head_dim, "all heads": (heads + kv_heads) * head_dim}[qk_norm]
    norm = hidden * (2 if norm_bias else 1)
    blocks = tuple(
        Block(
            mixer=Attention(
                heads=heads,
                kv_heads=kv_heads,
                head_dim=head_dim,
                window=window,
                qkv_bias=qkv_bias,
                output_bias=output_bias,
                qk_norm=qk_weights,
            ),
            mlp=Mlp(intermediate=keys.count("intermediate_size"), gated=gated, bias=mlp_bias),
            norm_weights=norms * norm,
            count=count,
        )
        for window, count in Counter(windows(keys, layers) if windows else (None,) * layers).items()
    )
    return Architecture(
        family=family,
        hidden=hidden,
        vocab=keys.count("vocab_size"),
        tied=keys.flag("tie_word_embeddings", tied),
        blocks=blocks,
        final_norm=norm,
        max_context=keys.optional("max_position_embeddings"),
    )


def sliding(keys: Keys, layers: int, slides: Callable[[int], bool], absent: int | None = None) -> Windows:
    """``sliding_window`` in the layers that ``layer_types`` names, else in those for which ``slides(layer)`` is true.

    ``absent`` is the window when the key is missing; a key that is null always means full attention.

    Raises:
        InputError: ``layer_types`` is not a list of one name per layer.
        UsageError: it names a kind of layer that is not attention.
    """
    window = keys.optional("sliding_window") if "sliding_window" in keys.values else absent
    types = keys.get("layer_types")
    if types is None:
        return tuple(window if slides(layer) else None for layer in range(layers))
    if not isinstance(types, list) or len(types) != layers:
        raise keys.error("layer_types", f"must be a list of {layers} names")
    for kind in types:
        if kind not in ("full_attention", "sliding_attention"):
            raise UsageError(f"{keys.where}: layers of type {written(kind)} (layer_types) are not modelled yet.")
    return tuple(window if kind == "sliding_attention" else None for kind in types)


def _divided(keys: Keys, hidden: int, heads: int) -> int:
    if hidden % heads:
        raise InputError(
            f"{keys.where}: hidden_size {hidden} is not a multiple of num_attention_heads {heads} and head_dim is "
            "missing: take the file as the model's maker made it."
        )
    return hidden // heads
