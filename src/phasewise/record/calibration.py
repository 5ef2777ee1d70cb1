"""Section of judge.calibrate: an efficiency fitted to measured steps, kept by name, and what it predicts."""

from __future__ import annotations

import os
import re
from pathlib import Path

import msgspec

from phasewise.errors import InputError, UsageError
from phasewise.record.disk import whole
from phasewise.record.observation import Phase
from phasewise.record.quantity import Quantity

SCHEMA = 1
"""Of a kept calibration; a file with a greater number was written by a newer phasewise."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """One measured step.

    Attributes:
        phase: which.
        tokens: new tokens of each request: of the prompt in a prefill, 1 in a decode step.
        batch: requests in the step.
        context: tokens of each request that were cached before the step.
        devices: that shared the model by tensor parallelism.
        seconds: TTFT, or time of the decode step; the median of ``repeats``.
        repeats: how many rows or samples it stands for.
        source: the file and row, or the run, that it is from.
    """

    phase: Phase
    tokens: float
    batch: float
    context: float
    devices: int
    seconds: float
    repeats: int = 1
    source: str = ""


class Scored(msgspec.Struct, frozen=True, kw_only=True):
    """A point beside its floor, what the fit says of it, and what the fit said that had not seen it, in seconds."""

    point: Point
    floor_s: float
    fitted_s: float
    held_out_s: float
    fold: int


class PhaseScore(msgspec.Struct, frozen=True, kw_only=True):
    """How far predictions of one phase are off, as |predicted / measured - 1|.

    ``plain`` is the floor; ``held_out`` what the fit says of points that it has not seen; ``interval`` whether there
    are enough points for one.
    """

    phase: Phase
    points: int
    plain_mean: float
    plain_median: float
    held_out_mean: float
    held_out_median: float
    interval: bool


class Calibration(msgspec.Struct, frozen=True, kw_only=True):
    """An efficiency and where it is from.

    Attributes:
        name: that it is kept by.
        created: ISO 8601, UTC.
        engine: what ran the model, as the user or the runs say; empty when nobody said.
        model, machine: what was measured.
        weights, kv: formats of the weights and of the KV cache.
        basis, dtype, peak_flops, bandwidth: the ceilings of one device that the shares are of.
        link_rate: bytes/s between devices, None when unknown.
        assumed_from: the class of machines whose prior the fit started from.
        parameters: ``measured`` where the points narrowed the prior, else ``assumed``; the interval is 80%.
        scatter: standard deviation of log(measured / fitted).
        folds: the parameters as fitted without each fold of points.
        points: all of them, scored.
        scores: one for each phase that has points.
        notes: what could not be told from the points, and what was left out.
    """

    schema: int = SCHEMA
    name: str
    created: str
    engine: str
    model: str
    machine: str
    weights: str
    kv: str
    basis: str
    dtype: str
    peak_flops: float
    bandwidth: float
    link_rate: float | None
    assumed_from: str
    parameters: dict[str, Quantity]
    scatter: float
    folds: tuple[dict[str, float], ...]
    points: tuple[Scored, ...]
    scores: tuple[PhaseScore, ...]
    notes: tuple[str, ...] = ()


class CalibratedStep(msgspec.Struct, frozen=True, kw_only=True):
    """One step: its plain floor, the calibrated time with its interval, or why no interval is claimed."""

    phase: Phase
    tokens: float
    batch: float
    context: float
    floor: Quantity
    time: Quantity
    no_interval: str = ""


class Calibrated(msgspec.Struct, frozen=True, kw_only=True):
    """What a calibration, or a class prior, says of the predicted steps.

    Attributes:
        name: of the calibration; ``prior`` for what is assumed of the machine's class.
        about: one sentence: what it was fitted to, or where it is assumed from.
        coverage: what each interval claims.
        prefill, decode: the steps of the prediction.
        ttft, tpot, total: of the request, alone on the machine.
        batch: a decode step at each batch of the batch table.
        notes: what a reader must know.
    """

    name: str
    about: str
    coverage: float
    prefill: CalibratedStep
    decode: CalibratedStep
    ttft: Quantity
    tpot: Quantity
    total: Quantity
    batch: tuple[CalibratedStep, ...]
    notes: tuple[str, ...] = ()


def check_name(name: str) -> str:
    """``name``, when a calibration may be kept by it.

    Raises:
        UsageError: anything that is not letters, digits, dots, dashes and underscores.
    """
    if not _NAME.fullmatch(name) or name == "prior":
        raise UsageError(
            f"{name[:80]!r} cannot be a calibration's name: use letters, digits, dots and dashes, and not `prior`, "
            "which means the class of the accelerator."
        )
    return name


def folder() -> Path:
    """Where calibrations are kept: ``$XDG_CONFIG_HOME/phasewise/calibrations``, else under ``~/.config``."""
    home = os.environ.get("XDG_CONFIG_HOME", "")
    config = Path(home) if os.path.isabs(home) else Path(os.path.expanduser("~/.config"))
    return config / "phasewise" / "calibrations"


def file_of(name: str) -> Path:
    """The file of the calibration called ``name``.

    Raises:
        UsageError: see `check_name`.
    """
    return folder() / f"{check_name(name)}.json"


def save(calibration: Calibration) -> None:
    """Keep ``calibration`` by its name, in place of an earlier one; the file is replaced as a whole.

    Raises:
        OSError: it cannot be written.
    """
    file = file_of(calibration.name)
    file.parent.mkdir(parents=True, exist_ok=True)
    with whole(file) as partial:
        partial.write_bytes(msgspec.json.format(msgspec.json.encode(calibration), indent=1))


def load(name: str) -> Calibration:
    """The calibration kept by ``name``.

    Raises:
        UsageError: there is none of that name, with those that there are.
        InputError: the file cannot be read, is damaged, or was written by a newer phasewise.
    """
    file = file_of(name)
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        raise _unknown(name) from None
    except OSError as error:
        raise InputError(f"{file} cannot be read ({error.strerror}): calibrate again.") from None
    try:
        schema = msgspec.json.decode(data, type=_Versioned).schema
        if schema > SCHEMA:
            raise InputError(
                f"{file} was written by a newer phasewise (schema {schema}, this reads {SCHEMA}): upgrade."
            )
        return msgspec.json.decode(data, type=Calibration)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{file} is no calibration ({error}): calibrate again.") from None


def names() -> tuple[str, ...]:
    """Of all that are kept."""
    return tuple(sorted(file.stem for file in folder().glob("*.json")))


def _unknown(name: str) -> UsageError:
    known = names()
    some = f"kept are {', '.join(known[:8])}" if known else "`phasewise calibrate` keeps them"
    return UsageError(f"there is no calibration {name!r}: {some}; `prior` means the class of the accelerator.")


class _Versioned(msgspec.Struct):
    schema: int
