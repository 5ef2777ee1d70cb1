"""A grid as flat columns (CSV, JSON) and as tables (terminal)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from phasewise.record.grid import Bools, Column, Floats, Grid
from phasewise.report.view import words
from phasewise.report.view.table import Cell, Table, columns, say

ACROSS, DOWN, BLOCKS = 7, 12, 4
"""Batches, lengths and combinations that tables show at most."""

UNITS = {
    "prefill_s": ("s", "floor of a prefill of batch prompts of length tokens"),
    "decode_s": ("s", "floor of a decode step of batch requests at length tokens of context"),
    "tokens_per_s": ("token/s", "batch over decode_s"),
    "throughput_gain": ("1", "tokens_per_s over those of batch 1"),
    "largest_batch": ("1", "requests that fit in 90% (assumed) of the memory"),
}
"""Unit and meaning of the columns that hold predictions."""


def flat(found: Grid) -> dict[str, list[Any]]:
    """Every point as one row of columns, lengths within combinations and batches within lengths; NaN is None."""
    c, n, b = found.shape
    each = n * b
    largest = np.nan_to_num(found.largest_batch).astype(np.int64)
    known = np.array([not column.missing for column in found.columns])[:, None, None]
    return {
        **{
            name: [getattr(column, name) for column in found.columns for _ in range(each)]
            for name in ("accelerator", "devices", "weights", "kv", "dtype", "basis")
        },
        "length": np.tile(np.repeat(_whole(found.lengths), b), c).tolist(),
        "batch": np.tile(_whole(found.batches), c * n).tolist(),
        "prefill_s": _or_none(found.prefill_s, ~np.isnan(found.prefill_s)),
        "prefill_bound": _or_none(np.where(found.prefill_compute_bound, "compute", "memory"), known),
        "decode_s": _or_none(found.decode_s, ~np.isnan(found.decode_s)),
        "decode_bound": _or_none(np.where(found.decode_compute_bound, "compute", "memory"), known),
        "tokens_per_s": _or_none(found.tokens_per_s, ~np.isnan(found.decode_s)),
        "throughput_gain": _or_none(found.throughput_gain, ~np.isnan(found.decode_s)),
        "largest_batch": _or_none(np.broadcast_to(largest[..., None], found.shape), found.has_memory),
        "fits": _or_none(~found.too_large, found.has_memory),
    }


def _whole(axis: Floats) -> npt.NDArray[Any]:
    """Tokens and requests as whole numbers, which only a call from a program may not give."""
    return axis.astype(np.int64) if np.all(axis == np.floor(axis)) else axis


def _or_none(values: npt.NDArray[Any], known: Bools) -> list[Any]:
    """All of ``values`` in a row, None where they are not known."""
    kept = values.astype(object)
    kept[np.broadcast_to(~known, values.shape)] = None
    return kept.ravel().tolist()


def heading(found: Grid) -> str:
    """What the grid is of, and how large."""
    c, n, b = found.shape
    counts = (_count(c, "combination"), _count(n, "length"), _count(b, "batch", "es"))
    return f"{words.name(found.models[0].name)}: {_count(found.points, 'predicted point')} ({' × '.join(counts)})"


def _count(number: int, what: str, more: str = "s") -> str:
    return f"{number:,} {what}{'' if number == 1 else more}"


def combination(column: Column) -> str:
    """``2 × h100-sxm, int4 weights, bf16 KV``."""
    many = f"{column.devices} × " if column.devices > 1 else ""
    kv = f", {words.name(column.kv)} KV" if column.kv else ""
    return f"{many}{words.name(column.accelerator)}, {words.name(column.weights)} weights{kv}"


def basis(column: Column) -> str:
    """What its numbers were computed with."""
    if column.missing:
        return f"{words.clean(column.missing)}: nothing is predicted."
    sure = "" if column.sure else "; some of its ceilings are assumed"
    return f"Predicted; matmuls in {words.clean(column.computes_in)}{sure}."


def tables(found: Grid) -> Iterator[Table]:
    """A table that compares the combinations when there is one length and one batch, else tables of each."""
    if found.shape[1:] == (1, 1):
        yield _comparison(found)
        return
    for at in range(min(len(found.columns), BLOCKS)):
        if not found.columns[at].missing:
            decode, prefill = "decode step, context down, batch across", "prefill, prompt down, prompts across"
            yield _block(found, at, decode, found.decode_s, found.decode_compute_bound)
            yield _block(found, at, prefill, found.prefill_s, found.prefill_compute_bound)


def notes(found: Grid) -> Iterator[str]:
    """What the tables' marks mean, what they leave out, and what the numbers were computed with."""
    c, n, b = found.shape
    yield "* compute-bound; ! more requests than fit in memory."
    if n * b > 1:
        left = [
            f"{most} of {has:,} {name}"
            for name, has, most in (("combinations", c, BLOCKS), ("lengths", n, DOWN), ("batches", b, ACROSS))
            if has > most
        ]
        if left:
            yield f"Shown are {words.listed(left)}: --csv FILE writes every point."
    yield from dict.fromkeys(f"{words.name(column.accelerator)}: {basis(column)}" for column in found.columns)
    parts = dict.fromkeys(part for model in found.models for part in model.not_modelled)
    if parts:
        yield f"Not modelled: {words.listed([words.name(part) for part in parts])}."


def _comparison(found: Grid) -> Table:
    length, batch = float(found.lengths[0]), float(found.batches[0])
    rows = (
        (
            say(column.accelerator),
            say(column.weights),
            _cell(found.prefill_s, found.prefill_compute_bound, found, (at, 0, 0)),
            _cell(found.decode_s, found.decode_compute_bound, found, (at, 0, 0)),
            Cell(_rate(float(found.tokens_per_s[at, 0, 0]))),
            Cell(words.count(float(found.largest_batch[at, 0]))),
        )
        for at, column in enumerate(found.columns)
    )
    return Table(
        title=f"{words.number(length, 'token')}, batch {words.count(batch)}",
        columns=columns("accelerator", "weights", ">prefill", ">decode step", ">tokens/s", ">fits"),
        rows=tuple(rows),
    )


def _block(found: Grid, at: int, what: str, values: Floats, bound: Bools) -> Table:
    across, down = some(len(found.batches), ACROSS), some(len(found.lengths), DOWN)
    heads = (f">{words.count(float(found.batches[j]))}" for j in across)
    return Table(
        title=f"{combination(found.columns[at])}: {what}",
        columns=columns(">", *heads),
        rows=tuple(
            (Cell(words.count(float(found.lengths[i]))), *(_cell(values, bound, found, (at, i, j)) for j in across))
            for i in down
        ),
    )


def _cell(values: Floats, bound: Bools, found: Grid, point: tuple[int, int, int]) -> Cell:
    """Seconds, with a mark where the point is compute-bound, and one where it does not fit in memory."""
    marks = ("*" if bound[point] else "") + ("!" if found.too_large[point] else "")
    return Cell(words.number(float(values[point]), "s") + marks)


def some(count: int, most: int) -> list[int]:
    """At most ``most`` of ``count`` indices, evenly spread, both ends among them."""
    return list(dict.fromkeys(round(i) for i in np.linspace(0, count - 1, min(count, most)).tolist()))


def _rate(value: float) -> str:
    return f"{value:,.3g}" if value < 100 else words.count(value)
