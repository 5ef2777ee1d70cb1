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
        active_without_embedding: the active count of publishers that leave the input embedding out.
        vision_parameters: of the vision tower and its projector; in no other count here.
        prediction_parameters: of multi-token prediction layers; in no other count here.
        state_bytes_per_request: what a request holds however long its context: recurrent states, encoded tokens.
        notes: what a reader should know of these counts.
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
    active_without_embedding: int = 0
    vision_parameters: int = 0
    prediction_parameters: int = 0
    state_bytes_per_request: float = 0.0
    notes: tuple[str, ...] = ()
