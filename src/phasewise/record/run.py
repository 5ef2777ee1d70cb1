"""The Run: an envelope and one typed section per stage, immutable, versioned, kept as a folder."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from phasewise.errors import InputError
from phasewise.record.envelope import Envelope
from phasewise.record.judgement import Judgement
from phasewise.record.machine import Machine
from phasewise.record.model import ModelFacts
from phasewise.record.observation import Observation
from phasewise.record.parallel import Parallel
from phasewise.record.prediction import Prediction
from phasewise.record.remedies import Remedies
from phasewise.record.target import Target
from phasewise.record.whatif import WhatIf

SCHEMA = 1
"""Version of the saved form; raised when an old reader could misread a new file."""

RUNS = Path("phasewise-runs")
"""Folder, under the working directory, that holds the runs."""


PAGE = "report.html"
"""Name of the HTML report in a run's folder."""


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
    observation: Observation | None = None
    judgement: Judgement | None = None
    remedies: Remedies | None = None


def new_id(target: str, now: datetime | None = None) -> str:
    """Folder name of a run: ``20261129T193000Z-<target>``, safe on any file system."""
    time = (now or datetime.now(UTC)).strftime("%Y%m%dT%H%M%SZ")
    return f"{time}-{re.sub(r'[^A-Za-z0-9.]+', '-', target).strip('-')[:60] or 'run'}"


def save(run: Run, root: Path = RUNS) -> Path:
    """Write ``run`` to ``root/<id>/run.json`` and return the folder.

    Raises:
        InputError: the folder cannot be written.
    """
    folder = root / run.envelope.id
    content = msgspec.json.format(msgspec.json.encode(run), indent=1)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        partial = folder / "run.json.partial"
        partial.write_bytes(content)
        partial.replace(folder / "run.json")
    except OSError as error:
        raise InputError(f"{folder} cannot be written ({error.strerror}): give --out a folder that can.") from None
    return folder


def load(path: Path) -> Run:
    """Read a run from its folder or its ``run.json``.

    Raises:
        InputError: missing, not a run, or written by a newer phasewise.
    """
    file = path / "run.json" if path.is_dir() else path
    try:
        data = file.read_bytes()
    except OSError as error:
        raise InputError(f"{file} cannot be read ({error.strerror}): name a folder under {RUNS}/.") from None
    try:
        schema = msgspec.json.decode(data, type=_Versioned).schema
    except msgspec.DecodeError as error:
        raise InputError(f"{file} is not a phasewise run ({error}): name a folder under {RUNS}/.") from None
    if schema > SCHEMA:
        raise InputError(f"{file} was written by a newer phasewise (schema {schema}, this reads {SCHEMA}): upgrade.")
    try:
        return msgspec.json.decode(data, type=Run)
    except msgspec.ValidationError as error:
        raise InputError(f"{file} is damaged ({error}): make the run again.") from None


class _Versioned(msgspec.Struct):
    schema: int
