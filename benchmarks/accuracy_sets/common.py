"""What the data sets share: where they lie, a cell of points, kernels as loads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from phasewise.hardware import catalogue
from phasewise.predict.efficiency import Array, Load
from phasewise.predict.priors import Prior
from phasewise.predict.roofline import Roof
from phasewise.record.quantity import assumed

DATA = Path(__file__).parents[2].parent / "shared" / "data" / "measured"
"""Public measurements with their licences; not a part of this repository."""

LONGEST_WALK = 2048.0
"""Elements of a sum after which kernels split it over multiprocessors; the sums of a model's matmuls are longer."""

Words = npt.NDArray[np.str_]


class Cell(NamedTuple):
    """The points of one model on one machine.

    Attributes:
        data, subject: names.
        prior: what is assumed of the machine by data sets that are not this one.
        load: of every point.
        seconds: as measured, (points,).
        phase: points whose misses make one interval, (points,).
        line: what a point's error is printed under, (points,).
        point: points with the same number are held out together: one setting, both phases of it, (points,).
        draw: how many settings are drawn of each ``stratum``.
        stratum: (points,).
    """

    data: str
    subject: str
    prior: Prior
    load: Load
    seconds: Array
    phase: Words
    line: Words
    point: npt.NDArray[np.intp]
    draw: dict[str, int]
    stratum: Words


def query(file: Path, select: str) -> list[tuple[Any, ...]]:
    """Rows of a CSV or Parquet file; ``select`` names it FILE."""
    import duckdb

    with duckdb.connect() as connection:
        return connection.execute(select.replace("FILE", f"'{file}'")).fetchall()


def roof(accelerator: str, dtype: str = "bf16") -> Roof:
    """The datasheet ceilings of one accelerator."""
    row = catalogue.find(accelerator)
    peak = next(row.peaks[one] for one in (dtype, "fp8", "bf16") if one in row.peaks)
    return Roof(
        basis="datasheet",
        dtype=dtype,
        compute=assumed(peak, "FLOP/s", row.source),
        bandwidth=assumed(row.bandwidth, "B/s", row.source),
    )


def kernels(flops: Array, moved: Array, under: Roof, *, counts: Array | float = 1.0, sums: Array | float) -> Load:
    """Kernels that are timed alone: their FLOPs, the bytes they move, the length of their sums, (points, kernels)."""
    none = np.zeros(len(flops))
    return Load(
        compute_s=flops / under.compute.value,
        memory_s=moved / under.bandwidth.value,
        kernels=np.broadcast_to(counts, flops.shape) * (flops > 0),
        walk=np.minimum(np.broadcast_to(sums, flops.shape) / LONGEST_WALK, 1.0),
        attention=np.zeros(flops.shape),
        layers=none,
        passes=none,
        prompts=none,
        answers=none,
        wire_s=none,
        messages=none,
    )


def moved(rows: Array, ins: Array | float, outs: Array | float, accelerator: str) -> Array:
    """Bytes of a matmul in 16 bit: weights, activations in and out.

    A kernel whose bytes all fit into the L2 cache finds its input there: it was just written, and is read about twice
    as fast as from memory.
    """
    weights, read, written = 2.0 * ins * outs, 2.0 * rows * ins, 2.0 * rows * outs
    cached = weights + read + written < L2[accelerator]
    return np.asarray(weights + written + np.where(cached, 0.5, 1.0) * read)


L2 = {"a100-sxm-80gb": 40e6, "h100-sxm": 50e6}
"""Bytes of the L2 cache (NVIDIA's architecture whitepapers)."""


def matmul(tokens: Array, matrices: Sequence[tuple[float, float]], accelerator: str) -> Load:
    """``tokens`` (points,) times each of ``matrices`` (inputs, outputs) in 16 bit."""
    ins, outs = np.array(matrices).T
    rows = tokens[:, None]
    sums = np.broadcast_to(ins, (len(rows), len(ins)))
    return kernels(2.0 * rows * ins * outs, moved(rows, ins, outs, accelerator), roof(accelerator), sums=sums)


def bands(tokens: Array) -> Words:
    """Decode-like, prefill-like, and what lies between."""
    return np.select([tokens <= 64, tokens >= 2048], ["decode", "prefill"], "middle")
