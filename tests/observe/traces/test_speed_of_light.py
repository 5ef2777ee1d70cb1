"""Speed Of Light: NVIDIA's rule, and figures weighted by time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasewise.observe.traces.events import Measured, Source
from phasewise.observe.traces.speed_of_light import measured_kernels, rule, weighted
from phasewise.observe.traces.tables import empty, table

NAN = math.nan


@pytest.mark.parametrize(
    ("compute", "memory", "waves", "bound", "notes"),
    [
        # A gemv of 6.75 us that others called memory-bound.
        (9.15, 19.66, NAN, "latency", ()),
        # The four kernels of ANSWERS.md.
        (5.938, 31.278, 0.71, "latency", ("small grid",)),
        (36.864, 88.196, 59.362, "memory", ("high throughput",)),
        (12.035, 90.717, 59.362, "memory", ("high throughput",)),
        (85.0, 40.0, 0.5, "compute", ("high throughput", "small grid")),
        (59.99, 59.99, 1.0, "latency", ()),
        (60.0, 10.0, 1.0, "compute", ()),
        (10.0, 60.0, 1.0, "memory", ()),
        (80.0, 79.0, 1.0, "compute", ()),
        (NAN, 90.0, 1.0, "not measured", ()),
        (90.0, NAN, 0.5, "not measured", ("small grid",)),
    ],
)
def test_rule(compute: float, memory: float, waves: float, bound: str, notes: tuple[str, ...]) -> None:
    assert rule(compute, memory, waves) == (bound, notes)


def rows(**columns: list[float]) -> Measured:
    given: Any = columns
    return table(Measured, {"name": [0] * len(columns["duration"]), **given})


def test_weighted_by_time() -> None:
    found = weighted(rows(duration=[1000, 3000], compute=[80, 40], memory=[20, 60], dram=[NAN, 50]), np.array([0, 1]))
    # (1 x 80 + 3 x 40) / 4, (1 x 20 + 3 x 60) / 4
    assert (found.compute, found.memory, found.dram) == (50, 50, 50)
    assert (found.kernels, found.duration_s, found.rule) == (2, pytest.approx(4e-6), "latency")


def test_what_dram_moved_the_warps_and_the_clock_by_hand() -> None:
    measured = rows(
        duration=[1000, 3000, 500],
        compute=[80, 40, 10],
        memory=[20, 60, 10],
        dram=[NAN, 50, NAN],
        dram_bytes=[2e6, 6e6, NAN],
        warps=[50, 90, NAN],
        sm_clock=[1.5e9, 1.5e9, 1.5e9],
    )
    found = weighted(measured, np.ones(3, bool))
    assert found.dram_bandwidth == pytest.approx(8e6 / 4e-6)  # 8 MB in the 4 us of the kernels that tell
    assert found.occupancy == pytest.approx((1 * 50 + 3 * 90) / 4)
    assert found.sm_clock == pytest.approx(1.5e9)
    silent = weighted(rows(duration=[1000], compute=[80], memory=[20]), np.ones(1, bool))
    assert (silent.dram_bandwidth, silent.occupancy, silent.sm_clock) == (None, None, None)


def test_compute_and_memory_are_of_the_same_kernels() -> None:
    measured = rows(duration=[1000, 1000, NAN, 0], compute=[70, NAN, 99, 99], memory=[30, 95, 1, 1], dram=[1, 2, 3, 4])
    found = weighted(measured, np.ones(4, bool))
    assert (found.compute, found.memory, found.dram, found.kernels) == (70, 30, 1, 1)
    assert found.rule == "compute"


@pytest.mark.parametrize("chosen", [np.zeros(1, bool), np.ones(1, bool), np.array([], np.int64)])
def test_without_counters(chosen: np.ndarray) -> None:
    found = weighted(rows(duration=[1000], compute=[NAN], memory=[NAN], dram=[NAN]), chosen)
    assert (found.compute, found.memory, found.dram) == (None, None, None)
    assert (found.kernels, found.duration_s, found.rule) == (0, 0, "not measured")


@given(st.lists(st.tuples(st.floats(1, 1e9), st.floats(0, 100), st.floats(0, 100)), min_size=1, max_size=20))
def test_a_mean_lies_between_its_kernels(kernels: list[tuple[float, float, float]]) -> None:
    duration, compute, memory = (list(column) for column in zip(*kernels, strict=True))
    found = weighted(rows(duration=duration, compute=compute, memory=memory), np.ones(len(kernels), bool))
    assert found.compute is not None
    assert min(compute) - 1e-9 <= found.compute <= max(compute) + 1e-9
    measured = rows(duration=duration, compute=compute, memory=memory)
    first = np.arange(len(kernels)) < len(kernels) // 2
    parts = [weighted(measured, first), weighted(measured, ~first)]
    whole = sum((part.compute or 0) * part.duration_s for part in parts)
    assert whole == pytest.approx(found.compute * found.duration_s)


def test_rows_of_the_record() -> None:
    measured = table(
        Measured,
        {
            "name": [0, 1],
            "device": [2, -1],
            "duration": [6750.0, NAN],
            "compute": [9.15, NAN],
            "memory": [19.66, NAN],
            "waves": [0.71, NAN],
        },
    )
    trace = empty(Source("a", "b"))._replace(names=("gemv", "norm", "H100"), measured=measured)
    one, other = measured_kernels(trace, ("gemv", "norm", "other"), ("decode", "unknown"))
    assert (one.name, one.family, one.device, one.phase) == ("gemv", "gemv", "H100", "decode")
    assert (one.duration_s, one.compute, one.dram) == (pytest.approx(6.75e-6), 9.15, None)
    assert (one.rule, one.notes) == ("latency", ("small grid",))
    assert (other.device, other.duration_s, other.rule, other.notes) == ("", None, "not measured", ())
