"""The Run: an envelope and one typed section per stage, immutable, versioned, kept as a folder."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import msgspec

from phasewise.errors import InputError
from phasewise.record.calibration import Calibrated
from phasewise.record.capture import Capture
from phasewise.record.disk import whole
from phasewise.record.envelope import Envelope
from phasewise.record.judgement import Judgement
from phasewise.record.load import Load
from phasewise.record.machine import Machine
from phasewise.record.model import ModelFacts
from phasewise.record.observation import Observation
from phasewise.record.parallel import Parallel
from phasewise.record.power import Power
from phasewise.record.power_sweep import PowerSweep
from phasewise.record.prediction import Prediction
from phasewise.record.remedies import Remedies
from phasewise.record.results import Results
from phasewise.record.sweep import Swept
from phasewise.record.target import Target
from phasewise.record.trace import Traced
from phasewise.record.whatif import WhatIf

SCHEMA = 1
"""Version of the saved form; raised when an old reader could misread a new file."""

RUNS = Path("phasewise-runs")
"""Folder, under the working directory, that holds the runs."""

PAGE = "report.html"
"""Name of the HTML report in a run's folder."""

_LARGEST = 64 << 20
"""Bytes of a run.json; a long one has some 200 kB."""

_TRIAL, _SHOWN = 1 << 16, 120
"""Bytes written to see that a folder can be written to, and characters of a path that are shown."""


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """What the stages hand on. A section is None when its stage did not take part."""

    schema: int = SCHEMA
    envelope: Envelope
    target: Target | None = None
    model: ModelFacts | None = None
    machine: Machine | None = None
    prediction: Prediction | None = None
    parallel: Parallel | None = None
    what_if: WhatIf | None = None
    calibrated: Calibrated | None = None
    observation: Observation | None = None
    sweep: Swept | None = None
    judgement: Judgement | None = None
    remedies: Remedies | None = None
    traced: Traced | None = None
    capture: Capture | None = None
    load: Load | None = None
    power: Power | None = None
    power_sweep: PowerSweep | None = None
    results: Results | None = None


def new_id(target: str, now: datetime | None = None) -> str:
    """Folder name of a run: ``20261129T193000Z-<target>``, safe on any file system."""
    time = (now or datetime.now(UTC)).strftime("%Y%m%dT%H%M%SZ")
    return f"{time}-{re.sub(r'[^A-Za-z0-9.]+', '-', target).strip('-')[:60] or 'run'}"


@contextmanager
def claimed(identity: str, root: Path = RUNS) -> Iterator[Path]:
    """A new folder ``root/identity`` that can be written to, ``-2``, ``-3``, ... behind its name when that is taken.

    When nothing was put into it, it is gone at the end, and so is what had to be made to hold it.

    Raises:
        InputError: the folder cannot be made or written to.
    """
    missing = [folder for folder in (root, *root.parents) if not os.path.lexists(folder)]
    made: list[Path] = []
    try:
        try:
            root.mkdir(parents=True, exist_ok=True)
            made = [_new(root, identity)]
            trial = made[0] / "trial"
            try:
                trial.write_bytes(bytes(_TRIAL))
            finally:
                trial.unlink(missing_ok=True)
        except OSError as error:
            where = f"{_short(root)} cannot be written to ({error.strerror})"
            raise InputError(f"{where}: give --out a folder that can.") from None
        yield made[0]
    finally:
        for folder in (*made, *missing):
            with suppress(OSError):  # something is in it
                folder.rmdir()


def _new(root: Path, identity: str) -> Path:
    for number in count(1):
        folder = root / (identity if number == 1 else f"{identity}-{number}")
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        return folder
    raise AssertionError


def save(run: Run, folder: Path) -> None:
    """Write ``run`` to ``folder/run.json``, which appears whole or not at all.

    Raises:
        OSError: it cannot be written.
    """
    with whole(folder / "run.json") as partial:
        partial.write_bytes(msgspec.json.format(msgspec.json.encode(run), indent=1))


def load(path: Path) -> Run:
    """Read a run from its folder or its ``run.json``.

    Raises:
        InputError: missing, not a run, or written by a newer phasewise.
    """
    name = _short(path)
    data = _read(path, name)
    try:
        schema = msgspec.json.decode(data, type=_Versioned).schema
    except (msgspec.DecodeError, RecursionError) as error:
        raise InputError(f"{name} is not a phasewise run ({error}): name a folder under {RUNS}/.") from None
    if schema > SCHEMA:
        raise InputError(f"{name} was written by a newer phasewise (schema {schema}, this reads {SCHEMA}): upgrade.")
    try:
        return msgspec.json.decode(data, type=Run)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InputError(f"{name} is damaged ({error}): make the run again.") from None


def _read(path: Path, name: str) -> bytes:
    """The bytes of a run: of a regular file, so that no pipe is waited for and no device is read for ever."""
    file = path
    try:
        if stat.S_ISDIR(path.stat().st_mode):
            file = path / "run.json"
            if not file.exists():
                raise InputError(f"{name} holds no run.json: name a folder under {RUNS}/.")
        if not stat.S_ISREG(file.stat().st_mode):
            raise InputError(f"{name} is no regular file: name a folder under {RUNS}/.")
        with file.open("rb") as opened:
            data = opened.read(_LARGEST + 1)
    except OSError as error:
        raise InputError(f"{name} cannot be read ({error.strerror}): name a folder under {RUNS}/.") from None
    if len(data) > _LARGEST:
        raise InputError(f"{name} is over {_LARGEST >> 20} MiB, which no run is: name a folder under {RUNS}/.")
    return data


def _short(path: Path) -> str:
    """``path``, cut to its last characters when it would fill the screen."""
    text = str(path)
    return text if len(text) <= _SHOWN else f"...{text[-_SHOWN:]}"


class _Versioned(msgspec.Struct):
    schema: int
