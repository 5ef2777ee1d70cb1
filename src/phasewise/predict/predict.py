"""The whole prediction for one model under one roof."""

from __future__ import annotations

import msgspec

from phasewise.model import work
from phasewise.model.model import Model
from phasewise.model.work import Work
from phasewise.predict import napkin
from phasewise.predict.explain import explain
from phasewise.predict.request import request
from phasewise.predict.roofline import (
    Roof,
    attention_crossover,
    decode_floor,
    floor,
    prefill_floor,
    ridge_tokens,
)
from phasewise.record.prediction import BatchRow, LengthRow, Napkin, Prediction, StepPrediction

BATCHES = (1, 2, 4, 8, 16, 32, 64, 128)
"""Batches of the batch table."""

LENGTHS = (128, 512, 2000, 8000, 32000, 128000)
"""Prompt lengths of the length table."""


def predict(model: Model, roof: Roof, *, prompt: int = 2000, answer: int = 300, batch: int = 1) -> Prediction:
    """Everything the physics says of ``model`` under ``roof`` for a request of ``prompt`` in and ``answer`` out.

    Decode steps are taken at a context of ``prompt`` tokens, with ``batch`` requests in the step.
    """
    prediction = Prediction(
        basis=roof.basis,
        dtype=roof.dtype,
        peak_flops=roof.compute.value,
        bandwidth=roof.bandwidth.value,
        prefill=prefill_step(model, roof, prompt),
        decode=decode_step(model, roof, prompt, batch),
        request=request(model, roof, prompt, answer),
        ridge_tokens=ridge_tokens(model, roof),
        attention_crossover_tokens=attention_crossover(model),
        batch=batch_rows(model, roof, prompt, tuple(sorted({*BATCHES, batch}))),
        lengths=tuple(_length_row(model, roof, n) for n in sorted({*LENGTHS, prompt})),
        prefill_batch={str(n): _prefill_ratio(model, roof, prompt, n) for n in (1, 2, 4)},
    )
    return msgspec.structs.replace(prediction, formulas=explain(model, roof, prediction))


def prefill_step(model: Model, roof: Roof, tokens: int, batch: int = 1) -> StepPrediction:
    """A prefill pass over ``batch`` prompts of ``tokens`` tokens."""
    step = work.prefill(model, float(tokens), float(batch))
    return _step(step, roof, tokens, batch, napkin.prefill(model, roof, tokens, batch))


def decode_step(model: Model, roof: Roof, context: int, batch: int = 1) -> StepPrediction:
    """A decode step of ``batch`` requests with ``context`` tokens each."""
    step = work.decode(model, float(context), float(batch))
    return _step(step, roof, context, batch, napkin.decode(model, roof, context, batch))


def _step(step: Work, roof: Roof, tokens: int, batch: int, on_napkin: Napkin) -> StepPrediction:
    flops, bytes_ = float(step.flops), float(step.bytes)
    compute, memory = flops / roof.compute.value, bytes_ / roof.bandwidth.value
    return StepPrediction(
        tokens=tokens,
        batch=batch,
        flops=flops,
        weight_bytes=float(step.weight_bytes),
        kv_bytes=float(step.kv_bytes),
        bytes=bytes_,
        compute_s=compute,
        memory_s=memory,
        time_s=float(floor(step, roof)),
        bound="compute" if compute >= memory else "memory",
        attention_share=float(step.attention_flops) / flops,
        napkin=on_napkin,
    )


def batch_rows(model: Model, roof: Roof, context: int, batches: tuple[int, ...]) -> tuple[BatchRow, ...]:
    """A decode step at each batch, and its throughput over batch 1, counted and on the napkin."""
    alone = float(decode_floor(model, roof, float(context)))
    alone_napkin = napkin.time(napkin.decode(model, roof, context))
    rows = []
    for batch in batches:
        step = float(decode_floor(model, roof, float(context), float(batch)))
        on_napkin = napkin.time(napkin.decode(model, roof, context, batch))
        rows.append(
            BatchRow(
                batch=batch,
                step_s=step,
                throughput_gain=batch * alone / step,
                napkin_step_s=on_napkin,
                napkin_throughput_gain=batch * alone_napkin / on_napkin,
            )
        )
    return tuple(rows)


def _length_row(model: Model, roof: Roof, tokens: int) -> LengthRow:
    step = prefill_step(model, roof, tokens)
    return LengthRow(tokens=tokens, time_s=step.time_s, bound=step.bound, attention_share=step.attention_share)


def _prefill_ratio(model: Model, roof: Roof, prompt: int, batch: int) -> float:
    alone = prefill_floor(model, roof, float(prompt))
    return float(prefill_floor(model, roof, float(prompt), float(batch)) / alone)
