"""Measured steps from a CSV or from the observation of a run."""

from __future__ import annotations

import csv
import math
import statistics
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from phasewise.errors import InputError
from phasewise.record.calibration import Point
from phasewise.record.observation import Phase
from phasewise.record.run import Run

COLUMNS = ("phase", "tokens", "batch", "context", "seconds", "tp")
"""Of a CSV of points; its first line names them, in any order, and may name others, which are not read.

phase: ``prefill`` or ``decode``. tokens: of each prompt (prefill); empty or 1 (decode). batch: requests in the step,
1 where empty. context: cached tokens of each request before the step; 0 where empty in a prefill. seconds: of the whole
step: TTFT, or time per decode step. tp: devices that share the model, 1 where empty.
"""

_NEEDED = ("phase", "seconds")
_MOST_ROWS = 100_000
_MOST = 1e9


def from_csv(path: Path) -> tuple[Point, ...]:
    """The points of a CSV, repeats of one setting not yet merged.

    Raises:
        InputError: missing, no CSV of points, or a row that cannot be; the text names the row and the column.
    """
    name = path.name
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            rows = csv.DictReader(file, skipinitialspace=True)
            header = [column.strip() for column in rows.fieldnames or ()]
            missing = [column for column in _NEEDED if column not in header]
            if missing:
                raise InputError(
                    f"{name} has no column {missing[0]!r}: its first line must name {', '.join(COLUMNS[:-1])} and tp."
                )
            rows.fieldnames = header
            return tuple(_points(rows, name))
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}): name a run's folder or a CSV of points.") from None
    except (UnicodeDecodeError, csv.Error):
        raise InputError(f"{name} is not a CSV in UTF-8: write a first line {','.join(COLUMNS)}.") from None


def _points(rows: csv.DictReader[str], name: str) -> Iterator[Point]:
    for row in rows:
        where = f"{name}, line {rows.line_num}"
        if rows.line_num > _MOST_ROWS:
            raise InputError(f"{name} has over {_MOST_ROWS:,} lines: keep the median of each setting.")
        if any(value for value in row.values() if isinstance(value, str)):
            yield _point(row, where)


def _point(row: dict[str, Any], where: str) -> Point:
    if None in row:
        raise InputError(f"{where}: there are more fields than columns: quote fields that hold commas.")
    phase = (row["phase"] or "").strip().lower()
    if phase not in ("prefill", "decode"):
        raise InputError(f"{where}: phase is {_shown(row['phase'])}: write prefill or decode.")
    prefill = phase == "prefill"
    tokens = _number(row, "tokens", where, None if prefill else 1.0, least=1.0)
    if not prefill and tokens != 1:
        raise InputError(f"{where}: tokens is {tokens:g} in a decode step, which gives each request 1: leave it empty.")
    return Point(
        phase="prefill" if prefill else "decode",
        tokens=tokens,
        batch=_number(row, "batch", where, 1.0, least=1.0),
        context=_number(row, "context", where, 0.0 if prefill else None, least=0.0),
        devices=round(_number(row, "tp", where, 1.0, least=1.0, whole=True)),
        seconds=_number(row, "seconds", where, None, least=1e-9),
        source=where,
    )


def _number(
    row: dict[str, Any], column: str, where: str, default: float | None, *, least: float, whole: bool = False
) -> float:
    text = (row.get(column) or "").strip()
    if not text and default is not None:
        return default
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (least <= value <= _MOST) or (whole and value != round(value)):
        need = "a positive number of seconds" if column == "seconds" else f"a number from {least:g} on"
        raise InputError(f"{where}: {column} is {_shown(text)}: it must be {need}.")
    return value


def _shown(text: object) -> str:
    shown = "".join(character for character in str(text or "")[:40] if character.isprintable())
    return repr(shown) if shown else "empty"


def from_run(run: Run) -> tuple[tuple[Point, ...], tuple[str, ...]]:
    """The points of a profile, batch 1, and a note for each phase whose figures its own checks disbelieve."""
    seen, judged = run.observation, run.judgement
    devices = run.machine.devices if run.machine else 1
    found: list[Point] = []
    notes: list[str] = []
    for phase in ("prefill", "decode"):
        part = getattr(seen, phase) if seen else None
        verdict = getattr(judged, phase) if judged else None
        if part is None:
            continue
        if verdict is not None and not verdict.believed:
            notes.append(f"{run.envelope.id}: its {phase} points are left out, because its own checks disbelieve them.")
            continue
        found += [_measured(phase, one, devices, run.envelope.id) for one in part.points]
    return tuple(found), tuple(notes)


def _measured(phase: Phase, one: Any, devices: int, source: str) -> Point:
    prefill = phase == "prefill"
    return Point(
        phase=phase,
        tokens=float(one.tokens) if prefill else 1.0,
        batch=1.0,
        context=0.0 if prefill else one.context,
        devices=devices,
        seconds=one.ttft.value if prefill else one.tpot.value,
        repeats=one.samples,
        source=source,
    )


def merged(points: Iterable[Point]) -> tuple[Point, ...]:
    """One point for each setting, its time the median of all that were measured at it."""
    by_setting: dict[tuple[object, ...], list[Point]] = {}
    for point in points:
        key = (point.phase, point.devices, point.batch, point.tokens, point.context)
        by_setting.setdefault(key, []).append(point)
    return tuple(
        msgspec.structs.replace(
            same[0],
            seconds=statistics.median(one.seconds for one in same),
            repeats=sum(one.repeats for one in same),
        )
        for _, same in sorted(by_setting.items(), key=lambda item: item[0])
    )
