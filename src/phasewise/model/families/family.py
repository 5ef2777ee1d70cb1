"""What a family of models is, and the builders that families share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

from phasewise.errors import InputError
from phasewise.model.architecture import Architecture, Attention, Mlp
from phasewise.model.keys import LAYERS, Keys
from phasewise.model.parts import FeedForward, Layer, Mixer, stack

Windows = tuple[int | None, ...]
"""The sliding window of each layer, None for full attention."""

QkNorm = Literal["no", "per head", "all heads", "layer norm"]
"""Norms of queries and keys: a weight per element of a head, or of all heads; a LayerNorm of a head has biases too."""


class Family(NamedTuple):
    """One family of models.

    Attributes:
        name: as shown.
        model_types: values of ``model_type`` in config.json.
        classes: entries of ``architectures``, for the configs that have no ``model_type``.
        build: from the keys of config.json to the architecture.
        nested: what the config class of transformers fills in. It leaves such values out of a nested ``text_config``
            (a top-level config always states them), so they count there and only there.
        fill: what the class fills in where published files leave it out, at the top level too; named when it is used.
        aliases: other names of keys, ``hidden_size`` to ``n_embd``.
        kinds: which kinds of model in ``unusual`` the family is meant to be.
        convention: says how the publisher counts, where that is not the plain way.
        gguf: values of ``general.architecture`` in GGUF files.
        full_every: which layers a GGUF's window spares: 2 is every second layer, 0 none of them. None: no windows.
    """

    name: str
    model_types: tuple[str, ...]
    classes: tuple[str, ...]
    build: Callable[[Keys], Architecture]
    nested: Mapping[str, object] = {}
    fill: Mapping[str, object] = {}
    aliases: Mapping[str, str] = {}
    kinds: tuple[str, ...] = ()
    convention: Callable[[Architecture], str] | None = None
    gguf: tuple[str, ...] = ()
    full_every: int | None = None


def architecture(
    keys: Keys,
    family: str,
    layers: list[Layer],
    *,
    tied: bool,
    final_norm: int | None = None,
    vocab: str = "vocab_size",
    context: str = "max_position_embeddings",
    **more: Any,
) -> Architecture:
    """A decoder of ``layers``.

    ``tied`` is whether lm_head is the embedding when the file does not say; ``vocab`` and ``context`` are the names of
    those keys; ``more`` goes to the Architecture.
    """
    hidden = keys.count("hidden_size")
    return Architecture(
        family=family,
        hidden=hidden,
        vocab=keys.count(vocab),
        tied=keys.flag("tie_word_embeddings", tied),
        blocks=stack(layers),
        final_norm=hidden if final_norm is None else final_norm,
        max_context=keys.optional(context),
        **more,
    )


def attention(
    keys: Keys,
    *,
    qkv_bias: bool = False,
    output_bias: bool = False,
    qk_norm: QkNorm = "no",
    head_dim: int | None = None,
    window: int | None = None,
    gated: bool = False,
    grouped: bool = True,
    **more: Any,
) -> Attention:
    """Attention by the usual keys; ``head_dim`` is for files that do not say, None is hidden / heads.

    ``gated`` is an output gate as wide as the output (Qwen3-Next); a class that is not ``grouped`` has as many key and
    value heads as query heads, whatever the file says; ``more`` goes to the Attention.
    """
    hidden, heads = keys.count("hidden_size"), keys.count("num_attention_heads")
    kv_heads = (keys.optional("num_key_value_heads") if grouped else None) or heads
    head_dim = keys.optional("head_dim") or head_dim or divided(keys, hidden, heads)
    if heads % kv_heads:
        raise keys.error("num_key_value_heads", f"must divide num_attention_heads ({heads})")
    return Attention(
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        window=window,
        qkv_bias=qkv_bias,
        output_bias=output_bias,
        qk_norm={
            "no": 0,
            "per head": 2 * head_dim,
            "all heads": (heads + kv_heads) * head_dim,
            "layer norm": 4 * head_dim,
        }[qk_norm],
        gate=hidden * heads * head_dim if gated else 0,
        **more,
    )


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
    mlp: Callable[[int], FeedForward] | None = None,
    qk_norm: QkNorm = "no",
    norms: int = 2,
    norm_bias: bool = False,
    head_dim: int | None = None,
    grouped: bool = True,
    **more: Any,
) -> Architecture:
    """A decoder from Hugging Face keys whose layers all have the same attention but for its window.

    Args:
        keys: of the (text) config.
        family: as shown.
        tied: whether lm_head is the embedding when the file does not say.
        windows: sliding window per layer; None for full attention everywhere.
        qkv_bias, output_bias: biases of the attention's projections.
        mlp_bias: biases in the MLP.
        gated: gate, up and down projections, else up and down.
        mlp: the feed-forward network of each layer by its number, where it is not this dense MLP.
        qk_norm: norms of queries and keys.
        norms: layer norms per block.
        norm_bias: LayerNorm (weight and bias) in place of RMSNorm (weight).
        head_dim: where the file does not say; None is hidden_size / num_attention_heads.
        grouped: whether the class heeds num_key_value_heads.
        more: to the Architecture.
    """
    count = layers(keys)
    norm = keys.count("hidden_size") * (2 if norm_bias else 1)

    def mixer(window: int | None) -> Mixer:
        return attention(
            keys,
            qkv_bias=qkv_bias,
            output_bias=output_bias,
            qk_norm=qk_norm,
            head_dim=head_dim,
            window=window,
            grouped=grouped,
        )

    def dense(layer: int) -> FeedForward:
        return Mlp(intermediate=keys.count("intermediate_size"), gated=gated, bias=mlp_bias)

    spans = windows(keys, count) if windows else (None,) * count
    mixers = {window: mixer(window) for window in set(spans)}
    stacked: list[Layer] = [(mixers[spans[n]], (mlp or dense)(n), norms * norm) for n in range(count)]
    return architecture(keys, family, stacked, tied=tied, **{"final_norm": norm, **more})


def layers(keys: Keys) -> int:
    """How many layers there are."""
    return keys.count("num_hidden_layers", LAYERS)


def sliding(keys: Keys, layers: int, slides: Callable[[int], bool], absent: int | None = None) -> Windows:
    """``sliding_window`` in the layers that ``layer_types`` names, else in those for which ``slides(layer)`` is true.

    ``absent`` is the window when the key is missing; a key that is null always means full attention.

    Raises:
        InputError: ``layer_types`` is not a list of one name per layer.
        UsageError: it names a kind of layer that is not attention.
    """
    window = keys.optional("sliding_window") if "sliding_window" in keys.values else absent
    types = keys.words("layer_types", layers, ("full_attention", "sliding_attention"))
    if types is None:
        return tuple(window if slides(layer) else None for layer in range(layers))
    return tuple(window if kind == "sliding_attention" else None for kind in types)


def divided(keys: Keys, hidden: int, heads: int) -> int:
    """hidden / heads.

    Raises:
        InputError: they do not divide.
    """
    if hidden % heads:
        raise InputError(
            f"{keys.where}: hidden_size {hidden} is not a multiple of num_attention_heads {heads} and head_dim is "
            "missing: take the file as the model's maker made it."
        )
    return hidden // heads
