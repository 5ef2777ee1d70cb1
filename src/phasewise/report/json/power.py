"""The documents of ``power --json``, and the power of ``profile --json``."""

from __future__ import annotations

from phasewise.record.power import BatchPower, DevicePower, PhasePower, Power, Recordings, Watched
from phasewise.record.quantity import Quantity
from phasewise.record.run import Run
from phasewise.report.json.leaves import Missing, document
from phasewise.report.view import power as view

_UNSAID = Missing("the readings do not say")

_OF_BATCH = (
    "watts",
    "share_of_limit",
    "energy_j",
    "tokens",
    "j_per_token",
    "net_j_per_token",
    "windows",
    "seconds",
)
"""What the document says of a batch."""


def power(run: Run) -> dict[str, object]:
    """A run's power, every leaf in SI."""
    found = view.document(run)
    return document(
        {
            "schema": run.schema,
            "run": run.envelope,
            "status": run.envelope.status,
            "target": run.target or Missing("no run was named"),
            "machine": run.machine or Missing("no run was named"),
            "verdict": {"text": view.headline(run)},
            **section(found),
        }
    )


def section(found: Power | None) -> dict[str, object]:
    """Power as part of a document."""
    if found is None:
        return {"power": Missing("the run was made without power")}
    why = "; ".join(found.missing.values()) or "no phase could be measured"
    body = {
        "phases": {phase: _phase(figures) for phase, figures in found.phases.items()},
        "batches": [_batch(one) for one in found.batches],
        "missing": found.missing,
        "devices": [
            {
                "index": device.index,
                "name": device.name,
                "uuid": device.uuid,
                "by": device.by,
                "file": device.file,
                "watts_are": device.watts_are,
                "counter": device.counter,
                "limit_w": device.limit_w or Missing("the readings hold no enforced limit"),
                "every_s": Quantity(value=device.every_s, unit="s", provenance="measured", source="median gap"),
                "fresh_s": Quantity(value=device.fresh_s, unit="s", provenance="measured", source="median gap"),
                "notes": device.notes,
            }
            for device in found.devices
        ],
        "idle": {
            "watts": found.idle.watts or Missing(found.idle.why_null or "no idle time was read"),
            "before": found.idle.before or Missing(found.idle.why_null or "no idle time was read"),
            "after": found.idle.after or Missing(found.idle.why_null or "no idle time was read"),
        },
        "boundary": found.boundary,
        "how": found.how,
        "checks": found.checks,
        "notes": found.notes,
        "rows": found.rows,
    }
    return {"power": body if found.phases else {**body, "phases": Missing(why)}}


def recordings(found: Recordings) -> dict[str, object]:
    """Telemetry files by themselves."""
    files = [{"name": one.name, "form": one.form, **section(one.power)} for one in found.files]
    return document({"files": files, "checks": found.checks})


def watched(found: Watched) -> dict[str, object]:
    """What can be read here, and what was."""
    seconds = Quantity(value=found.seconds, unit="s", provenance="assumed", source="as asked for")
    return document({"meters": found.meters, "seconds": seconds, **section(found.power)})


def _phase(one: PhasePower) -> dict[str, object]:
    def count(value: float, unit: str, source: str) -> Quantity:
        return Quantity(value=value, unit=unit, provenance=one.watts.provenance, source=source)  # type: ignore[arg-type]

    return {
        "text": one.text,
        "watts": one.watts,
        "p95_w": one.p95 or _UNSAID,
        "share_of_limit": one.share or Missing("the enforced limit is unknown: give --limit"),
        "energy_j": one.joules,
        "counted_j": one.counted or Missing("there is no energy counter, or it was set back"),
        "sampled_j": one.sampled or Missing("watts come from the counter itself"),
        "counter_against_readings": Missing("there are no two witnesses")
        if one.differ is None
        else count(one.differ, "1", "counted over sampled, less 1"),
        "net_j": one.net or Missing("there is no idle baseline"),
        "tokens": Missing("tokens are not known")
        if one.tokens is None
        else count(one.tokens, "token", "of the requests in the windows"),
        "j_per_token": one.per_token or Missing("tokens are not known"),
        "net_j_per_token": one.net_per_token or Missing("there is no idle baseline, or tokens are not known"),
        "windows": count(one.windows, "1", "stretches, repeats merged"),
        "requests": count(one.requests, "request", "in the windows"),
        "seconds": count(one.seconds, "s", "of the windows"),
        "busy": count(one.busy, "1", "part of the windows in which a request of the phase ran"),
        "readings": count(one.readings, "1", "in the windows, of the device with the fewest"),
        "left_out": one.left_out,
        "devices": [_device(device) for device in one.devices],
        "notes": one.notes,
    }


def _batch(one: BatchPower) -> dict[str, object]:
    """Decode at one batch; every figure that its phase has."""

    def sent(value: float, unit: str, source: str) -> Quantity:
        return Quantity(value=value, unit=unit, provenance="measured", source=source)  # type: ignore[arg-type]

    figures = _phase(one.figures) if one.figures else {name: Missing(one.why_null) for name in _OF_BATCH}
    return {
        "batch": sent(one.batch, "request", "decoding together"),
        "prompt_tokens": sent(one.prompt_tokens, "token", "of each request"),
        **{name: figures[name] for name in _OF_BATCH},
        "left_out": one.figures.left_out if one.figures else one.why_null,
    }


def _device(device: DevicePower) -> dict[str, object]:
    names = {"p95": "p95_w", "share": "share_of_limit"}
    return {names.get(field, field): getattr(device, field) or _UNSAID for field in device.__struct_fields__}
