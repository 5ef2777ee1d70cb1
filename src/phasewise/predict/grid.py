"""Floors over arrays: every format on every accelerator at every length and batch, without a loop over points."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from phasewise.model import work
from phasewise.model.model import Model
from phasewise.predict import memory
from phasewise.predict.roofline import Roof, computes_in, floor, roofs
from phasewise.record.grid import Column, Grid
from phasewise.record.machine import Machine

_BLOCK = 2**15
"""Points that are counted at once: their arrays stay in a core's cache."""


def grid(models: Sequence[Model], machines: Sequence[Machine], lengths: npt.ArrayLike, batches: npt.ArrayLike) -> Grid:
    """The grid of ``models`` (one per format) × ``machines`` × ``lengths`` × ``batches``.

    The work of a format is counted once, in array operations over many lengths and batches, and held against each
    machine's ceilings. Where a machine has no rate that a format can compute at, the numbers are NaN and the column
    says why.

    Args:
        models: the same model in each format, from ``model.load.load(name, weights=..., kv=...)``.
        machines: from ``hardware.catalogue.machine(hardware.catalogue.find(name))``.
        lengths: tokens of a prompt, and of context in a decode step; positive, shape (L,).
        batches: requests in a step; positive, shape (B,).
    """
    up, across = np.asarray(lengths, dtype=float), np.asarray(batches, dtype=float)
    pairs = [(model, [(machine, _roof(model, machine)) for machine in machines]) for model in models]
    columns = len(models) * len(machines)
    shape = (columns, len(up), len(across))
    found = Grid(
        models=tuple(model.facts() for model in models),
        columns=tuple(_column(model, machine, roof) for model, on in pairs for machine, roof in on),
        lengths=up,
        batches=across,
        prefill_s=np.full(shape, np.nan),
        decode_s=np.full(shape, np.nan),
        prefill_compute_bound=np.zeros(shape, dtype=bool),
        decode_compute_bound=np.zeros(shape, dtype=bool),
        throughput_gain=np.full(shape, np.nan),
        largest_batch=np.full(shape[:2], np.nan),
    )
    for i, (model, on) in enumerate(pairs):
        first = i * len(machines)
        for rows, some in _blocks(shape[1:]):
            _fill(found, first, model, [roof for _, roof in on], rows, some)
        for at, (machine, _) in enumerate(on, first):
            room = memory.usable(machine)
            if room is not None:
                found.largest_batch[at] = memory.largest_batch(model, room, up)
    return found


def _roof(model: Model, machine: Machine) -> Roof | None:
    return next(iter(roofs(model, machine)), None)


def _blocks(shape: tuple[int, ...]) -> Iterator[tuple[slice, slice]]:
    """Slices of lengths and batches that cover ``shape``."""
    wide = min(shape[1], _BLOCK)
    tall = max(1, _BLOCK // max(1, wide))
    for top in range(0, shape[0], tall):
        for left in range(0, shape[1], max(1, wide)):
            yield slice(top, top + tall), slice(left, left + wide)


def _fill(found: Grid, first: int, model: Model, on: list[Roof | None], rows: slice, some: slice) -> None:
    """Fill in ``rows`` of lengths × ``some`` batches of one format, its columns from ``first`` on."""
    up, across = found.lengths[rows, None], found.batches[some]
    prefill, decode, alone = work.prefill(model, up, across), work.decode(model, up, across), work.decode(model, up)
    intensities = prefill.flops / prefill.bytes, decode.flops / decode.bytes
    for at, roof in enumerate(on, first):
        if roof is None:
            continue
        place = (at, rows, some)
        step = floor(decode, roof)
        found.prefill_s[place], found.decode_s[place] = floor(prefill, roof), step
        found.throughput_gain[place] = across * floor(alone, roof) / step
        found.prefill_compute_bound[place] = intensities[0] >= roof.ridge
        found.decode_compute_bound[place] = intensities[1] >= roof.ridge


def _column(model: Model, machine: Machine, roof: Roof | None) -> Column:
    sure = roof is not None and {roof.compute.provenance, roof.bandwidth.provenance} <= {"datasheet", "measured"}
    return Column(
        weights=model.weights_format,
        kv=model.kv_format,
        accelerator=machine.name,
        devices=machine.devices,
        basis=roof.basis if roof else "",
        dtype=roof.dtype if roof else "",
        computes_in=computes_in(model, machine, roof) if roof else "",
        sure=sure,
        missing="" if roof else f"{machine.name} has no known rate for {' or '.join(model.compute)}",
    )
