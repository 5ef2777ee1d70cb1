"""Requests of saved runs with the telemetry that lies beside them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from phasewise.errors import InputError, UsageError
from phasewise.hardware.power.base import Reading
from phasewise.isolate.rows import Row
from phasewise.jobs import power_point, sampled
from phasewise.jobs.saved import find
from phasewise.judge.clock_slope import Clocked
from phasewise.judge.drawn import Beside
from phasewise.record.run import Run

REQUESTS, TELEMETRY = "requests.parquet", sampled.ROWS

_Struct = TypeVar("_Struct", bound=msgspec.Struct)


def clocked(paths: Sequence[Path]) -> tuple[tuple[Run, ...], list[Clocked]]:
    """The runs at ``paths``, and each of their requests that counts with the clock that it ran at.

    Requests are comparable across runs of one machine, engine, model and endpoint only.

    Raises:
        UsageError: a run has no telemetry beside it.
        InputError: it is no run, or a file beside it is damaged.
    """
    runs: list[Run] = []
    requests: list[Clocked] = []
    for path in dict.fromkeys(path.resolve() for path in paths):  # one that is named twice is no second witness
        run, folder = find(path)
        if run.load is not None or run.sweep is not None:
            raise UsageError(
                f"{folder} holds no phase alone, whose time a clock could slow: name runs of phasewise profile."
            )
        target = run.target
        machine = run.machine.name if run.machine else ""
        what = (machine, target.engine, target.served_model, target.endpoint) if target else (machine,)
        for name in (REQUESTS, TELEMETRY):
            if not (folder / name).exists():
                raise UsageError(f"{folder} has no {name}: profile where the clock of the GPU can be read.")
        rows, readings = (list(_read(folder / REQUESTS, Row)), list(_read(folder / TELEMETRY, Reading)))
        devices = sorted({one.device for one in readings if one.sm_hz is not None})
        runs.append(run)
        requests += power_point.clocked(rows, 0.0, Beside(readings, devices), what)
    return tuple(runs), requests


def _read(path: Path, kind: type[_Struct]) -> Iterator[_Struct]:
    """The rows of ``path``; a number that is not there is None."""
    import duckdb

    fields = msgspec.structs.fields(kind)
    try:
        with duckdb.connect() as connection:
            names = ", ".join(f'"{field.name}"' for field in fields)
            found = connection.read_parquet(str(path)).project(names).fetchall()
    except duckdb.Error as error:
        raise InputError(f"{path} cannot be read ({str(error).splitlines()[0][:160]}): make the run again.") from None
    try:
        for row in found:
            plain = [None if isinstance(value, float) and math.isnan(value) else value for value in row]
            listed = kind.__struct_config__.array_like
            yield msgspec.convert(plain if listed else dict(zip(kind.__struct_fields__, plain, strict=True)), kind)
    except msgspec.ValidationError as error:
        raise InputError(f"{path} is not what phasewise wrote ({error}): make the run again.") from None
