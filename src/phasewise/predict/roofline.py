"""Work against ceilings: the least time that a step can take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec
import numpy as np

from phasewise.model import work
from phasewise.model.architecture import Count
from phasewise.model.formats import SIXTEEN
from phasewise.model.model import Model
from phasewise.model.work import Work
from phasewise.record.machine import Ceilings, Machine
from phasewise.record.quantity import Quantity


class Roof(msgspec.Struct, frozen=True, kw_only=True):
    """The two ceilings that one model meets on one machine, all its devices together.

    ``dtype`` is the one that the model's matmuls run in there, so that the right peak is used. Several devices are
    counted as one with their sum: what they say to each other is not in it.
    """

    basis: Literal["datasheet", "measured", "stated"]
    dtype: str
    compute: Quantity
    bandwidth: Quantity

    @property
    def ridge(self) -> float:
        """FLOPs per byte at which the two ceilings meet."""
        return self.compute.value / self.bandwidth.value


def computes_in(model: Model, machine: Machine, roof: Roof) -> str:
    """The dtype whose peak the matmuls are held against, and why, in one phrase for ModelFacts."""
    said = f"{roof.dtype} ({roof.basis})"
    best = model.compute[0]
    if roof.dtype != best:
        return f"{said}: {machine.name} has no known {best} rate for {model.weights_format} weights"
    if roof.dtype in SIXTEEN and model.weights_format not in (*SIXTEEN, "f16", "f32"):
        return f"{said}: {model.weights_format} weights are unpacked before the matmul"
    return said


def roofs(model: Model, machine: Machine, at_once: float | None = None) -> tuple[Roof, ...]:
    """One roof per basis that states both ceilings, the most trusted first.

    Of the devices that take turns, ``at_once`` says as how many together they work; None for all of them.
    """
    many = machine.devices if at_once is None else min(at_once, machine.devices)
    found = (_roof(model, ceilings, many) for ceilings in machine.ceilings)
    return tuple(roof for roof in found if roof)


def _roof(model: Model, ceilings: Ceilings, devices: float) -> Roof | None:
    dtype = next((dtype for dtype in model.compute if dtype in ceilings.compute), None)
    if dtype is None or ceilings.bandwidth is None:
        return None
    return Roof(
        basis=ceilings.basis,
        dtype=dtype,
        compute=_times(ceilings.compute[dtype], devices),
        bandwidth=_times(ceilings.bandwidth, devices),
    )


def _times(one: Quantity, devices: float) -> Quantity:
    return msgspec.structs.replace(
        one,
        value=one.value * devices,
        low=None if one.low is None else one.low * devices,
        high=None if one.high is None else one.high * devices,
        source=one.source if devices == 1 else f"{devices:.3g} × {one.source}",
    )


def floor(step: Work, roof: Roof) -> Count:
    """Least seconds of a step: the sum over its operations of the slower of its math and its bytes."""
    return sum(
        (
            np.maximum(op.flops / roof.compute.value, (op.weight_bytes + op.kv_bytes) / roof.bandwidth.value)
            for op in step.operations
        ),
        0.0,
    )


def prefill_floor(model: Model, roof: Roof, tokens: Count, batch: Count = 1.0, cached: Count = 0.0) -> Count:
    """Least seconds of a prefill pass."""
    return floor(work.prefill(model, tokens, batch, cached), roof)


def decode_floor(model: Model, roof: Roof, context: Count, batch: Count = 1.0) -> Count:
    """Least seconds of a decode step."""
    return floor(work.decode(model, context, batch), roof)


def ridge_tokens(model: Model, roof: Roof) -> float:
    """Tokens per step at which reading the layers' weights and computing with them take equal time.

    A mixture of experts reads more of them the more tokens there are, so that its ridge lies higher.
    """

    def intensity(tokens: float) -> float:
        layers = [op for op in work.decode(model, 0.0, tokens).operations if op.name not in _NOT_LAYERS]
        flops = float(sum((op.flops for op in layers), 0.0))
        return flops / max(float(sum((op.weight_bytes for op in layers), 0.0)), 1.0)

    return _crossing(lambda tokens: intensity(tokens) / roof.ridge) or float("inf")


_NOT_LAYERS = ("lm_head", "attention", "indexer", "state")


def attention_crossover(model: Model) -> float | None:
    """Prompt length at which attention costs as many FLOPs as the layers' weights; None if it never does.

    With full attention in every layer it is P/(Σ H·h), P the weights that a token uses outside the embeddings; P/(L·d)
    is the special case H·h = d.
    """

    def ratio(tokens: float) -> float:
        step = work.prefill(model, tokens)
        rest = sum((op.flops for op in step.operations if op.name not in ("lm_head", *work.ATTENTION)), 0.0)
        return float(step.attention_flops) / float(rest)

    return _crossing(ratio)


def _crossing(ratio: Callable[[float], float]) -> float | None:
    """Where a ratio that grows with tokens becomes 1, by bisection; None if it never does."""
    low, high = 1e-3, 2.0**40
    if ratio(high) < 1:
        return None
    while high - low > 1e-9 * high:
        middle = (low * high) ** 0.5
        low, high = (middle, high) if ratio(middle) < 1 else (low, middle)
    return high
