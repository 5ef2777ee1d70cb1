"""A grid is the point-by-point prediction, in one call."""

from __future__ import annotations

import time

import numpy as np
import pytest

from phasewise.hardware import catalogue
from phasewise.model.load import load
from phasewise.model.model import Model
from phasewise.predict import memory
from phasewise.predict.grid import grid
from phasewise.predict.predict import batch_rows, decode_step, prefill_step
from phasewise.predict.roofline import roofs
from phasewise.record.grid import Grid
from phasewise.record.machine import Machine
from published_models import MIXTRAL, from_keys

LENGTHS, BATCHES = (1, 300, 2000, 50_000), (1, 2, 64, 300)


def machines(*names: str) -> list[Machine]:
    return [catalogue.machine(catalogue.find(name)) for name in names]


def formats(name: str = "llama-3-8b") -> list[Model]:
    return [load(name, weights=weights) for weights in ("bf16", "fp8", "int4")]


@pytest.mark.parametrize("models", [formats(), formats("gemma-3-1b"), [from_keys(MIXTRAL)]])
def test_every_point_is_what_the_step_says_alone(models: list[Model]) -> None:
    on = machines("h100-sxm", "a100-sxm-80gb")
    found = grid(models, on, LENGTHS, BATCHES)
    assert found.shape == (len(models) * 2, 4, 4)
    for c, (model, machine) in enumerate((model, machine) for model in models for machine in on):
        roof = roofs(model, machine)[0]
        column = found.columns[c]
        assert (column.accelerator, column.weights, column.dtype) == (machine.name, model.weights_format, roof.dtype)
        for i, length in enumerate(LENGTHS):
            rows = batch_rows(model, roof, length, BATCHES)
            assert found.throughput_gain[c, i].tolist() == pytest.approx([row.throughput_gain for row in rows])
            assert found.largest_batch[c, i] == memory.largest_batch(model, memory.usable(machine) or 0.0, length)
            for j, batch in enumerate(BATCHES):
                prefill, decode = prefill_step(model, roof, length, batch), decode_step(model, roof, length, batch)
                assert found.prefill_s[c, i, j] == pytest.approx(prefill.time_s, rel=1e-12)
                assert found.decode_s[c, i, j] == pytest.approx(decode.time_s, rel=1e-12)
                assert found.prefill_compute_bound[c, i, j] == (prefill.bound == "compute")
                assert found.decode_compute_bound[c, i, j] == (decode.bound == "compute")


def test_what_is_not_known_is_nan_with_its_reason() -> None:
    # The Jetson's row states no 16-bit rate.
    found = grid(formats()[:1], machines("h100-sxm", "jetson-agx-thor"), [2000], [1])
    assert not found.columns[0].missing
    assert "jetson-agx-thor has no known rate for bf16" in found.columns[1].missing
    assert np.isnan(found.decode_s[1]).all()
    assert np.isnan(found.tokens_per_s[1]).all()
    assert not np.isnan(found.decode_s[0]).any()


def test_assumed_ceilings_are_marked() -> None:
    found = grid(formats()[:1], machines("h100-sxm", "m3-ultra-80c"), [2000], [1])
    assert [column.sure for column in found.columns] == [True, False]


def test_a_batch_that_does_not_fit_is_marked() -> None:
    found = grid(formats()[:1], machines("h100-sxm"), [2300], [200, 201])
    assert found.too_large.tolist() == [[[False, True]]]


def test_an_empty_grid_is_empty() -> None:
    found = grid([], [], [1], [1])
    assert found.points == 0


def clocked(models: list[Model], on: list[Machine], lengths: np.ndarray, batches: np.ndarray) -> tuple[Grid, float]:  # type: ignore[type-arg]
    started = time.perf_counter()
    found = grid(models, on, lengths, batches)
    return found, time.perf_counter() - started


@pytest.mark.parametrize(("lengths", "batches"), [(1000, 1000), (1_000_000, 1), (1, 1_000_000)])
def test_a_million_points_take_under_two_seconds(lengths: int, batches: int) -> None:
    # Some 0.3 s on one quiet core; the bound is the product's promise.
    found, seconds = clocked(
        formats()[:1], machines("h100-sxm"), np.geomspace(1, 1e5, lengths), np.geomspace(1, 1e3, batches)
    )
    assert found.points == 1_000_000
    assert np.isfinite(found.decode_s).all()
    assert seconds < 2


def test_a_million_points_over_formats_and_accelerators_too() -> None:
    on = [catalogue.machine(row) for row in catalogue.accelerators()]
    found, seconds = clocked(formats(), on, np.geomspace(1, 1e5, 72), np.geomspace(1, 1e3, 72))
    assert found.points > 1_000_000
    assert seconds < 2
