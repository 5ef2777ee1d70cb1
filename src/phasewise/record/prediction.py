"""Section of predict/: what each phase must cost at least, in both conventions."""

from __future__ import annotations

from typing import Literal

import msgspec

from phasewise.record.scaling import Scaling

FloorBound = Literal["compute", "memory"]


class Napkin(msgspec.Struct, frozen=True, kw_only=True):
    """The back of an envelope: 2·P·N FLOPs against all weights read once (decode: plus the KV cache)."""

    flops: float
    bytes: float
    compute_s: float
    memory_s: float
    bound: FloorBound


class StepPrediction(msgspec.Struct, frozen=True, kw_only=True):
    """One step of one phase, counted.

    Attributes:
        tokens: prompt tokens (prefill) or tokens of context before the step (decode).
        batch: requests in the step.
        flops: FLOPs that the step must do.
        weight_bytes: weights that it must read.
        kv_bytes: KV cache that it must read (decode) or write (prefill).
        bytes: weight_bytes + kv_bytes.
        compute_s: flops over the compute ceiling.
        memory_s: bytes over the bandwidth ceiling.
        time_s: the floor: sum over the step's operations of the slower of the two.
        bound: which of the two the step as a whole is bound on.
        attention_share: of the FLOPs.
        napkin: the same step on the napkin.
    """

    tokens: int
    batch: int
    flops: float
    weight_bytes: float
    kv_bytes: float
    bytes: float
    compute_s: float
    memory_s: float
    time_s: float
    bound: FloorBound
    attention_share: float
    napkin: Napkin


class BatchRow(msgspec.Struct, frozen=True, kw_only=True):
    """A decode step at one batch and what it gains over batch 1."""

    batch: int
    step_s: float
    throughput_gain: float
    napkin_step_s: float
    napkin_throughput_gain: float


class LengthRow(msgspec.Struct, frozen=True, kw_only=True):
    """A prefill at one prompt length."""

    tokens: int
    time_s: float
    bound: FloorBound
    attention_share: float


class RequestPrediction(msgspec.Struct, frozen=True, kw_only=True):
    """One request alone: TTFT, then (answer - 1) decode steps at growing context."""

    prompt_tokens: int
    answer_tokens: int
    ttft_s: float
    tpot_s: float
    total_s: float
    decode_share: float


class Formula(msgspec.Struct, frozen=True, kw_only=True):
    """One line of --explain: what, the formula in words, the same with its numbers, and the result as shown."""

    name: str
    formula: str
    numbers: str
    result: str


class Prediction(msgspec.Struct, frozen=True, kw_only=True):
    """What the physics allows for one model on one machine.

    ``basis`` names the ceilings it was computed with (``datasheet``, ``measured`` or ``stated``), ``dtype`` the compute
    peak. ``prefill_batch`` gives the time of 1, 2 and 4 prompts at once as ratios to one. ``scaling`` is None where it
    was not asked for.
    """

    basis: str
    dtype: str
    peak_flops: float
    bandwidth: float
    prefill: StepPrediction
    decode: StepPrediction
    request: RequestPrediction
    ridge_tokens: float
    attention_crossover_tokens: float | None
    batch: tuple[BatchRow, ...]
    lengths: tuple[LengthRow, ...]
    prefill_batch: dict[str, float]
    formulas: tuple[Formula, ...] = ()
    scaling: Scaling | None = None
