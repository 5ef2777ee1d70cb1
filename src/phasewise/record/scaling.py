"""Section of predict/: what batch and context do to decode, and how many requests fit in memory."""

from __future__ import annotations

import msgspec

from phasewise.record.quantity import Quantity


class Fits(msgspec.Struct, frozen=True, kw_only=True):
    """The largest batch that memory holds, every request at ``context`` tokens. Bytes are of all devices together.

    Attributes:
        context: tokens that each request holds in its cache.
        largest_batch: 0 when not even one request fits.
        memory_bytes: what the devices have.
        usable_share: part of it that an engine may fill; the rest is for its runtime, graphs and fragments.
        weights_bytes: resident weights.
        kv_bytes: KV cache of the largest batch.
        kv_bytes_per_request: of one request.
        state_bytes: recurrent states and encoded tokens of the largest batch.
        activation_bytes: of a step of the largest batch.
        step_tokens: tokens of the step that the activations are of.
        least_devices: how many devices hold the weights and one request.
    """

    context: int
    largest_batch: int
    memory_bytes: Quantity
    usable_share: Quantity
    weights_bytes: float
    kv_bytes: float
    kv_bytes_per_request: float
    state_bytes: float
    activation_bytes: float
    step_tokens: int
    least_devices: int


class ContextRow(msgspec.Struct, frozen=True, kw_only=True):
    """Decode at one context.

    Attributes:
        context: tokens of context of each request.
        step_s: a step of one request.
        throughput_gain: tokens per second of ``Scaling.gain_batch`` requests over those of one.
        compute_bound_at: smallest batch whose math takes as long as its reading; None when no batch's does.
        largest_batch: that fits in memory; None when the memory is not known.
        largest_step_s: a step of that batch; None without one.
        largest_tokens_per_s: tokens per second of that batch; None without one.
    """

    context: int
    step_s: float
    throughput_gain: float
    compute_bound_at: int | None
    largest_batch: int | None
    largest_step_s: float | None
    largest_tokens_per_s: float | None


class Scaling(msgspec.Struct, frozen=True, kw_only=True):
    """How decode scales.

    ``fits`` is None when the memory is not known. ``compute_bound_at`` is that of the stated context.
    """

    context: int
    compute_bound_at: int | None
    gain_batch: int
    rows: tuple[ContextRow, ...]
    fits: Fits | None = None
