"""What batch and context do to decode: its gain, where it turns compute-bound, and what memory allows."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from phasewise.model import work
from phasewise.model.model import Model
from phasewise.model.passes import Count
from phasewise.predict import memory
from phasewise.predict.roofline import Roof, decode_floor
from phasewise.record.machine import Machine
from phasewise.record.scaling import ContextRow, Scaling

CONTEXTS = (100, 300, 2000, 8000, 32000, 128000)
"""Contexts of the table."""

GAIN_BATCH = 64
"""The batch whose gain over one request the table shows."""


def scaling(model: Model, roof: Roof, machine: Machine, prompt: int = 2000, answer: int = 300) -> Scaling:
    """How decode of ``model`` scales, its steps at ``prompt`` tokens of context; a request ends at prompt + answer."""
    contexts = np.array(sorted({*CONTEXTS, prompt}), dtype=float)
    alone = decode_floor(model, roof, contexts)
    turns = compute_bound_batch(model, roof, contexts)
    rows = tuple(
        ContextRow(
            context=int(context),
            step_s=float(step),
            throughput_gain=float(gain),
            compute_bound_at=_whole(turn),
            largest_batch=None if largest is None else int(largest),
            largest_step_s=float(decode_floor(model, roof, context, largest)) if largest else None,
            largest_tokens_per_s=float(largest / decode_floor(model, roof, context, largest)) if largest else None,
        )
        for context, step, gain, turn, largest in zip(
            contexts,
            np.broadcast_to(alone, contexts.shape),
            np.broadcast_to(throughput_gain(model, roof, contexts, float(GAIN_BATCH)), contexts.shape),
            turns,
            _largest(model, machine, contexts),
            strict=True,
        )
    )
    return Scaling(
        context=prompt,
        compute_bound_at=next(row.compute_bound_at for row in rows if row.context == prompt),
        gain_batch=GAIN_BATCH,
        rows=rows,
        fits=memory.fits(model, machine, prompt + answer),
    )


def throughput_gain(model: Model, roof: Roof, context: Count, batch: Count) -> Count:
    """Tokens per second of ``batch`` requests over those of one: batch · step(1) / step(batch)."""
    return batch * decode_floor(model, roof, context) / decode_floor(model, roof, context, batch)


def compute_bound_batch(model: Model, roof: Roof, context: Count) -> npt.NDArray[np.float64]:
    """The batch at which a decode step's math takes as long as its reading; inf when each request's KV forbids it.

    FLOPs grow with the batch. Bytes are the weights, read once, and each request's KV and state: once those alone take
    longer than a request's math, no batch is compute-bound. Without any KV the batch is the ridge. An array as
    ``context`` is.
    """
    low, high = np.full(np.shape(context), 1e-3), np.full(np.shape(context), 2.0**40)
    never = ~_is_compute_bound(model, roof, context, high)
    while np.any(high > low * (1 + 1e-9)):
        middle = np.sqrt(low * high)
        bound = _is_compute_bound(model, roof, context, middle)
        low, high = np.where(bound, low, middle), np.where(bound, middle, high)
    return np.where(never, np.inf, high)


def _is_compute_bound(model: Model, roof: Roof, context: Count, batch: Count) -> npt.NDArray[np.bool_]:
    step = work.decode(model, context, batch)
    return np.asarray(step.flops / roof.compute.value >= step.bytes / roof.bandwidth.value)


def _whole(batch: float) -> int | None:
    """The first whole batch from ``batch`` on."""
    return None if math.isinf(batch) else max(1, math.ceil(batch * (1 - 1e-8)))


def _largest(model: Model, machine: Machine, contexts: npt.NDArray[np.float64]) -> list[float | None]:
    room = memory.usable(machine)
    return [None] * len(contexts) if room is None else list(memory.largest_batch(model, room, contexts))
