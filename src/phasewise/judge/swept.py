"""Predictions beside what a sweep measured."""

from __future__ import annotations

import math
import statistics

import msgspec
import numpy as np

from phasewise.model.model import Model
from phasewise.predict import queue
from phasewise.predict.roofline import Roof, decode_floor, prefill_floor, ridge_tokens
from phasewise.predict.scaling import compute_bound_batch, throughput_gain
from phasewise.record.quantity import measured, predicted
from phasewise.record.sweep import Cell, Gain, Surface, Swept, Together, Traffic


def beside(found: Swept, ground: tuple[Model, Roof] | None) -> Swept:
    """``found`` with floors, predicted gains and ratios, the ridge, and the waits of a queue beside the measured ones.

    Without ``ground`` (model and roof) only what needs neither is added.
    """
    mix = found.mix
    if mix is not None and mix.traffic is not None:
        found = msgspec.structs.replace(found, mix=msgspec.structs.replace(mix, traffic=queued(mix.traffic)))
    if ground is None:
        return found
    model, roof = ground
    return msgspec.structs.replace(
        found,
        together=_together(found.together, model, roof) if found.together else None,
        surface=_surface(found.surface, model, roof) if found.surface else None,
        ridge_tokens=predicted(ridge_tokens(model, roof), "token", "reading the weights takes as long as the math"),
        compute_bound_at=_compute_bound_at(found.surface, model, roof),
    )


def queued(traffic: Traffic) -> Traffic:
    """``traffic`` with the waits of a queue that serves each prompt for its time alone, and what is left: the mix."""
    service = traffic.ttft_alone.value
    formula = queue.mean_wait(traffic.rate.value, service)
    wait = statistics.fmean(queue.waits(traffic.arrivals, service))
    left = traffic.ttft.value - service - wait
    low, high = traffic.ttft.low, traffic.ttft.high
    return msgspec.structs.replace(
        traffic,
        wait_formula=predicted(formula, "s", "M/D/1 at that rate, long run") if math.isfinite(formula) else None,
        wait_arrivals=predicted(wait, "s", "the same arrivals, one server, TTFT alone as service time"),
        mix=measured(
            left,
            "s",
            "TTFT less that alone less the wait of the same arrivals",
            None if low is None else low - service - wait,
            None if high is None else high - service - wait,
        ),
    )


def _together(found: Together, model: Model, roof: Roof) -> Together:
    alone = float(prefill_floor(model, roof, float(found.tokens)))
    rows = tuple(
        msgspec.structs.replace(
            row,
            predicted_ratio=predicted(
                float(prefill_floor(model, roof, float(found.tokens), float(row.prompts))) / alone,
                "1",
                "of the floors of one pass",
            ),
        )
        for row in found.rows
    )
    return msgspec.structs.replace(found, rows=rows)


def _surface(found: Surface, model: Model, roof: Roof) -> Surface:
    contexts = {(cell.batch, cell.prompt_tokens): cell.context for cell in found.cells}
    return msgspec.structs.replace(
        found,
        cells=tuple(_cell(cell, model, roof) for cell in found.cells),
        gains=tuple(_gain(gain, contexts[gain.batch, gain.prompt_tokens], model, roof) for gain in found.gains),
    )


def _cell(cell: Cell, model: Model, roof: Roof) -> Cell:
    floor = float(decode_floor(model, roof, cell.context, float(cell.batch)))
    return msgspec.structs.replace(cell, floor=predicted(floor, "s", f"floor at {cell.context:,.0f} tokens each"))


def _gain(gain: Gain, context: float, model: Model, roof: Roof) -> Gain:
    value = float(throughput_gain(model, roof, context, float(gain.batch)))
    return msgspec.structs.replace(
        gain, predicted=predicted(value, "1", f"of the floors at {context:,.0f} tokens each")
    )


def _compute_bound_at(found: Surface | None, model: Model, roof: Roof) -> int | None:
    cells = [cell for cell in found.cells if cell.step] if found else []
    if not cells:
        return None
    turn = float(compute_bound_batch(model, roof, np.array([min(cell.context for cell in cells)]))[0])
    return None if math.isinf(turn) else max(1, math.ceil(turn * (1 - 1e-8)))
