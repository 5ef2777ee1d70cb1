"""A prediction over a whole grid: formats × accelerators × lengths × batches."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import numpy.typing as npt

from phasewise.record.model import ModelFacts

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


class Column(msgspec.Struct, frozen=True, kw_only=True):
    """One format on one accelerator: what its numbers were computed with.

    Attributes:
        weights, kv: formats of weights and KV cache.
        accelerator, devices: what it runs on.
        basis: of the ceilings: ``datasheet``, ``measured`` or ``stated``.
        dtype, computes_in: that the matmuls run in there, and why, in one phrase.
        sure: False when one of the ceilings is assumed.
        missing: why nothing is known for this pair; empty when something is.
    """

    weights: str
    kv: str
    accelerator: str
    devices: int = 1
    basis: str = ""
    dtype: str = ""
    computes_in: str = ""
    sure: bool = False
    missing: str = ""


class Grid(msgspec.Struct, frozen=True, kw_only=True):
    """Floors at every point; NaN where a column says that nothing is known.

    Arrays have the shape (columns, lengths, batches), a column being one format on one accelerator. A point is a
    prefill of ``batch`` prompts of ``length`` tokens, and a decode step of ``batch`` requests at ``length`` tokens of
    context.

    Attributes:
        models: the model's facts, one for each format.
        columns: C of them, formats outermost.
        lengths, batches: the axes, shapes (L,) and (B,).
        prefill_s, decode_s: seconds of the floor.
        prefill_compute_bound, decode_compute_bound: whether math takes at least as long as memory in the whole step.
        throughput_gain: decode tokens per second over those of one request at the same context.
        largest_batch: requests that fit in memory at each length, shape (C, L); NaN where the memory is not known.
    """

    models: tuple[ModelFacts, ...]
    columns: tuple[Column, ...]
    lengths: Floats
    batches: Floats
    prefill_s: Floats
    decode_s: Floats
    prefill_compute_bound: Bools
    decode_compute_bound: Bools
    throughput_gain: Floats
    largest_batch: Floats

    @property
    def shape(self) -> tuple[int, int, int]:
        """Columns, lengths, batches."""
        return len(self.columns), len(self.lengths), len(self.batches)

    @property
    def points(self) -> int:
        """How many there are."""
        return math.prod(self.shape)

    @property
    def tokens_per_s(self) -> Floats:
        """Decode tokens per second of all requests."""
        return self.batches / self.decode_s

    @property
    def has_memory(self) -> Bools:
        """Where the memory is known, shape (C, L, 1)."""
        return ~np.isnan(self.largest_batch)[..., None]

    @property
    def too_large(self) -> Bools:
        """Where the batch does not fit in memory; False where the memory is not known."""
        return self.batches > self.largest_batch[..., None]
