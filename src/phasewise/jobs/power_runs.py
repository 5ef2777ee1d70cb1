"""Requests of saved runs with the telemetry that lies beside them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import msgspec

from phasewise.errors import InputError, UsageError
from phasewise.hardware.power.base import Reading
from phasewise.jobs import power_point, sampled
from phasewise.jobs.begun import REQUESTS
from phasewise.jobs.requests import requests as of_file
from phasewise.jobs.saved import find
from phasewise.judge.clock_slope import Clocked
from phasewise.judge.drawn import Beside
from phasewise.record.run import Run

TELEMETRY = sampled.ROWS


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
        rows, readings = (of_file(folder / REQUESTS), _readings(folder / TELEMETRY))
        devices = sorted({one.device for one in readings if one.sm_hz is not None})
        runs.append(run)
        requests += power_point.clocked(rows, 0.0, Beside(readings, devices), what)
    return tuple(runs), requests


def _readings(path: Path) -> list[Reading]:
    """The rows of ``path``; a number that is not there is None."""
    import duckdb

    names = ", ".join(f'"{field}"' for field in Reading.__struct_fields__)
    try:
        with duckdb.connect() as connection:
            found = connection.read_parquet(str(path)).project(names).fetchall()
    except duckdb.Error as error:
        raise InputError(f"{path} cannot be read ({str(error).splitlines()[0][:160]}): make the run again.") from None
    try:
        return [msgspec.convert([_plain(value) for value in row], Reading) for row in found]
    except msgspec.ValidationError as error:
        raise InputError(f"{path} is not what phasewise wrote ({error}): make the run again.") from None


def _plain(value: object) -> object:
    return None if isinstance(value, float) and math.isnan(value) else value
