"""The job behind `phasewise predict --grid`: formats and accelerators to a grid of floors."""

from __future__ import annotations

import msgspec

from phasewise.errors import UsageError
from phasewise.jobs.subject import Subject
from phasewise.predict.grid import grid as predicted
from phasewise.record.grid import Grid

MOST_POINTS = 1_000_000
"""Points of a grid that the command draws; the library call has no limit but memory."""


class Axes(msgspec.Struct, frozen=True, kw_only=True):
    """What a grid is over. ``weights`` and ``kv`` hold None for the model's own format."""

    accelerators: tuple[str | None, ...]
    lengths: tuple[int, ...]
    batches: tuple[int, ...]
    weights: tuple[str | None, ...] = (None,)
    kv: tuple[str | None, ...] = (None,)

    @property
    def points(self) -> int:
        """How many there are."""
        formats = len(self.weights) * len(self.kv)
        return formats * len(self.accelerators) * len(self.lengths) * len(self.batches)


def grid(subject: Subject, axes: Axes) -> Grid:
    """The grid of ``subject`` over ``axes``, which stand in for its formats and its accelerator.

    Raises:
        UsageError: too many points, no accelerator, or none that has a rate for one of the formats.
    """
    if axes.points > MOST_POINTS:
        raise UsageError(f"--grid asks for {axes.points:,} points: the most is {MOST_POINTS:,}, so give fewer values.")
    models = [
        model
        for weights in axes.weights
        for kv in axes.kv
        if (model := msgspec.structs.replace(subject, weights=weights, kv=kv).load_model())
    ]
    machines = [
        machine for name in axes.accelerators if (machine := msgspec.structs.replace(subject, on=name).load_machine())
    ]
    if not machines:
        raise UsageError("say what it runs on: --on h100-sxm,a100-sxm-80gb, or --peak and --bandwidth together.")
    found = predicted(models, machines, axes.lengths, axes.batches)
    if all(column.missing for column in found.columns):
        raise UsageError(f"{found.columns[0].missing}: give --peak and --bandwidth.")
    return found
