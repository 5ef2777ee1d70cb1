"""The documents of ``calibrate --json``, and the part of ``predict --json`` that a calibration adds."""

from __future__ import annotations

from pathlib import Path

from phasewise.record.calibration import CalibratedStep, Calibration, Scored
from phasewise.record.quantity import Quantity, measured, predicted
from phasewise.record.run import Run
from phasewise.report.json.leaves import Missing, document


def calibration(found: Calibration, file: Path, unkept: str) -> dict[str, object]:
    """Parameters with their provenance, errors of each phase, every point; ``folds`` stay in the file.

    ``unkept`` is why there is no file; empty when there is.
    """
    return document(
        {
            "schema": found.schema,
            "name": found.name,
            "file": Missing(f"it cannot be written: {unkept}") if unkept else str(file),
            "created": found.created,
            "engine": found.engine or Missing("nobody said what ran it: --engine"),
            "model": found.model,
            "machine": found.machine,
            "weights": found.weights,
            "kv": found.kv,
            "basis": found.basis,
            "dtype": found.dtype,
            "peak_flops": found.peak_flops,
            "bandwidth": found.bandwidth,
            "link_rate": found.link_rate or Missing("no link is known"),
            "assumed_from": found.assumed_from,
            "parameters": found.parameters,
            "scatter": predicted(found.scatter, "1", "standard deviation of log(measured / fitted)"),
            "scores": {score.phase: score for score in found.scores},
            "points": [_point(one) for one in found.points],
            "notes": found.notes,
        }
    )


def _point(one: Scored) -> dict[str, object]:
    point = one.point
    return {
        "phase": point.phase,
        "tokens": point.tokens,
        "batch": point.batch,
        "context": point.context,
        "tp": point.devices,
        "repeats": point.repeats,
        "seconds": measured(point.seconds, "s", point.source),
        "floor_s": predicted(one.floor_s, "s", "plain floor"),
        "fitted_s": predicted(one.fitted_s, "s", "fit of all points"),
        "held_out_s": predicted(one.held_out_s, "s", "fit without this point"),
    }


def sections(run: Run) -> dict[str, object]:
    """The key ``calibrated`` of a prediction; no key without a calibration."""
    found = run.calibrated
    if found is None:
        return {}
    return {
        "calibrated": {
            "name": found.name,
            "about": found.about,
            "coverage": found.coverage,
            "prefill": _step(found.prefill),
            "decode": _step(found.decode),
            "request": {
                "ttft_s": found.ttft,
                "tpot_s": found.tpot,
                "total_s": found.total,
            },
            "batch": [_step(one) for one in found.batch],
            "notes": found.notes,
        }
    }


def _step(one: CalibratedStep) -> dict[str, object]:
    prefill = one.phase == "prefill"
    return {
        "tokens": one.tokens if prefill else one.context,
        "batch": one.batch,
        "floor_s": one.floor,
        "time_s": one.time,
        "low_s": _end(one, one.time.low),
        "high_s": _end(one, one.time.high),
    }


def _end(one: CalibratedStep, value: float | None) -> Quantity | Missing:
    if value is None:
        return Missing(one.no_interval or "no interval is claimed")
    return predicted(value, "s", "end of the interval")
