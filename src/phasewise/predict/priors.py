"""What is assumed of an engine that nobody has measured: an efficiency for each class of accelerator, with its spread.

The numbers, each with the data that it came from, are rows of priors.json. Adding a class or a data set is adding rows.
"""

from __future__ import annotations

import functools
import math
from importlib import resources
from typing import NamedTuple

import msgspec
import numpy as np

from phasewise.predict.efficiency import NAMES, Array, Efficiency, from_free, to_free
from phasewise.record.machine import Machine

ANY = "any"
"""The class of what is in no other: orders of magnitude, with a spread to match."""


class Row(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One parameter of one class as one data set shows it.

    Attributes:
        parameter: a field of ``Efficiency``.
        value: its middle there.
        spread: a factor; about two thirds of engines and machines of the class lie within value / spread and
            value · spread. Of a share it multiplies the odds, share / (1 - share), of the corner p - 1.
        data: name of the data set; a score on that data must leave the row out.
        source: where it can be read, or how it was fitted.
    """

    parameter: str
    value: float
    spread: float
    data: str
    source: str


class Class(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A class of accelerators: catalogue names, or a kind of which every machine is meant."""

    name: str
    about: str
    accelerators: tuple[str, ...] = ()
    kind: str = ""
    rows: tuple[Row, ...]


class Prior(NamedTuple):
    """Middle and spread (standard deviation of ``Efficiency.free()``) of a class, and where each parameter is from."""

    name: str
    about: str
    free: Array
    spread: Array
    sources: dict[str, str]

    @property
    def efficiency(self) -> Efficiency:
        """The middle."""
        return from_free(self.free)


@functools.cache
def classes() -> dict[str, Class]:
    """Every class by name."""
    data = resources.files("phasewise.predict").joinpath("priors.json").read_bytes()
    return {one.name: one for one in msgspec.json.decode(data, type=tuple[Class, ...])}


def class_of(machine: Machine) -> str:
    """The class that ``machine`` belongs to, by its catalogue name, else by its kind; ``any`` when in none."""
    for one in classes().values():
        if machine.name in one.accelerators or (one.kind and one.kind == machine.kind):
            return one.name
    return ANY


def prior(name: str, without: tuple[str, ...] = ()) -> Prior:
    """What is assumed of class ``name``; rows from data sets that begin with one of ``without`` are left out.

    Several rows are averaged on the free scale, and how they differ adds to the spread. What a class has no row for is
    taken from ``any``.
    """
    chosen = [_rows(name, parameter, without) or _rows(ANY, parameter, ()) for parameter in NAMES]
    values = [np.array([to_free(row.parameter, row.value) for row in rows]) for rows in chosen]
    within = [np.array([math.log(row.spread) for row in rows]) for rows in chosen]
    return Prior(
        name=name,
        about=classes()[name].about,
        free=np.array([one.mean() for one in values]),
        spread=np.array([np.sqrt((one**2).mean() + value.var()) for one, value in zip(within, values, strict=True)]),
        sources={rows[0].parameter: "; ".join(dict.fromkeys(row.source for row in rows)) for rows in chosen},
    )


def _rows(name: str, parameter: str, without: tuple[str, ...]) -> list[Row]:
    rows = (row for row in classes()[name].rows if row.parameter == parameter)
    return [row for row in rows if not without or not row.data.startswith(without)]
