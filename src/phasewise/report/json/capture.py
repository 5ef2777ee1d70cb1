"""The document of ``capture --json``: that of its traces, with the capture itself under ``capture``."""

from __future__ import annotations

from phasewise.record.capture import Captured
from phasewise.record.run import Run
from phasewise.report.json.leaves import Missing, document
from phasewise.report.json.sweep import held
from phasewise.report.json.traced import traced
from phasewise.report.json.traced_fields import fields
from phasewise.report.view import capture as view


def captured(run: Run) -> dict[str, object]:
    """A capture; every leaf in SI.

    Raises:
        ValueError: the run holds no capture.
    """
    found = run.capture
    if found is None:
        raise ValueError("this run holds no capture")
    own = document(
        {
            "schema": run.schema,
            "run": run.envelope,
            "status": run.envelope.status,
            "verdict": {"text": view.headline(run, found)},
            "notices": view.notices(run, found),
            "target": run.target,
            "capture": {
                "profiler": found.profiler,
                "folder": found.folder,
                "notes": found.notes,
                "proceed": found.proceed,
                "held": held(found.held) if found.held else None,
                "phases": {one.name: _phase(one) for one in found.phases},
            },
            "timed_checks": run.observation.checks if run.observation else [],
        }
    )
    if run.traced is None:
        return own
    trace = traced(run)
    both = {name: {**_mapping(trace[name]), **_mapping(own[name])} for name in ("provenance", "reasons")}
    return {**trace, **own, "notices": [*_list(own["notices"]), *_list(trace["notices"])], **both}


def _phase(one: Captured) -> dict[str, object]:
    null = Missing(one.why_null or "it was not measured")
    return {
        "requests": one.requests,
        "prompt_tokens": one.prompt_tokens,
        "batch": one.batch,
        "context": one.context,
        "steps": one.steps,
        "client_s": one.client or null,
        "client_profiled_s": one.slowed or null,
        "trace_s": one.traced or null,
        "kernels_s": one.kernels or null,
        "floor_s": one.floor or Missing("model or machine is not known: name them with --model and --on"),
        "utilisations": one.utilisations,
        "agrees": null if one.agrees is None else one.agrees,
        "text": one.text,
        "parts": [{"name": part.name, "seconds": part.seconds, "means": part.means} for part in one.parts],
        "checks": one.checks,
        "files": [
            {"path": file.path, "bytes": file.bytes, "role": file.role, "place": file.place} for file in one.files
        ],
        "marked": [fields(step, {}) for step in one.marked],
    }


def _mapping(value: object) -> dict[str, object]:
    assert isinstance(value, dict)
    return value


def _list(value: object) -> list[object]:
    assert isinstance(value, list)
    return value
