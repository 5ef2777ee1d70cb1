"""Section of model/: what the model is, as far as a step's cost goes."""

from __future__ import annotations

import msgspec

from phasewise.record.quantity import Quantity


class ModelFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The model as it is costed.

    Attributes:
        name: catalogue name, or the name in its file.
        source: where the facts come from (catalogue row with its source, config.json, GGUF file).
        parameters: all of them, each embedding once (tied) or twice (untied).
        active_parameters: those that one token uses (all of them for a dense model).
        embedding_parameters: of the input embedding table alone.
        weight_bytes: resident bytes of all weights in their format.
        kv_bytes_per_token: bytes of KV cache per token of context, all layers at full context.
        layers: number of blocks.
        max_context: as trained, when known.
        weights_format: ``bf16``, ``q4_1``, ``mixed: q4_1, f32, ...``.
        kv_format: format of the KV cache.
        compute_dtype: the dtype whose peak the matmuls are judged against, and why, in one phrase.
        not_modelled: parts of the model whose cost is left out, each named; empty when all is counted.
    """

    name: str
    source: str
    parameters: int
    active_parameters: int
    embedding_parameters: int
    weight_bytes: Quantity
    kv_bytes_per_token: Quantity
    layers: int
    max_context: int | None
    weights_format: str
    kv_format: str
    compute_dtype: str
    not_modelled: tuple[str, ...] = ()
