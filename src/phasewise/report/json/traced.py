"""The document of ``trace --json``."""

from __future__ import annotations

import msgspec

from phasewise.record.quantity import Quantity, predicted, reported
from phasewise.record.remedies import Remedy
from phasewise.record.run import Run
from phasewise.record.trace import (
    FamilyRow,
    MeasuredKernel,
    RoleRow,
    SpeedOfLight,
    Traced,
    TracedPhase,
    TracePart,
    TracePhase,
    TraceVerdict,
)
from phasewise.report.json.fixes import fix
from phasewise.report.json.leaves import Missing, document
from phasewise.report.json.traced_fields import fields
from phasewise.report.view import findings
from phasewise.report.view import traced as view
from phasewise.report.view.traced_recap import recap
from phasewise.units import Unit

_TIMELINE: dict[str, Unit] = {"start_s": "s", "length_s": "s"}
_PERCENT = ("compute", "memory", "dram", "occupancy")
"""Percentages of Nsight Compute; in the document they are ratios, as every other share is."""


def traced(run: Run) -> dict[str, object]:
    """A trace: phases, steps, kernels, health; every leaf in SI. Ends with the recap.

    Raises:
        ValueError: the run holds no trace.
    """
    found = run.traced
    if found is None:
        raise ValueError("this run holds no trace")
    table = recap(run, found)
    whole = fields(found, found.missing, *_TOTALS, "files", "devices", "outside_s", "outside_kernels")
    tree = document(
        {
            "schema": run.schema,
            "run": run.envelope,
            "status": run.envelope.status,
            "verdict": {"text": view.headline(run, found)},
            "notices": view.notices(run, found),
            "phases": {name: _phase(name, phase, found) for name, phase in found.phases.items()},
            "steps": [{**fields(step, {}), "evidence": view.evidence(found, step)} for step in found.steps],
            **{name: whole[name] for name in _TOTALS},
            "on_cpu": found.on_cpu,
            "outside": {"gpu_time_s": whole["outside_s"], "kernels": whole["outside_kernels"]},
            "health": found.health,
            "files": whole["files"],
            "devices": whole["devices"],
            "measured": [_ratios(one) for one in found.measured],
            "fixes": [_fix(run, one) for one in findings.fixes(run)],
            "rejected": findings.rejected(run),
            "fixes_note": findings.note(run),
            "model": run.model or Missing("no model is known: give --model"),
            "machine": run.machine or Missing("no accelerator is known: give --on"),
        }
    )
    return {
        **_with_timeline(tree, found),
        "recap": {
            column.name: {row[0].text: row[i].text for row in table.rows}
            for i, column in enumerate(table.columns)
            if column.name
        },
    }


_TOTALS = (
    "kernels_total",
    "gpu_sum_s",
    "kernel_union_s",
    "gpu_union_s",
    "span_s",
    "busy_fraction",
    "resident_fraction",
    "graph_launches",
    "gpu_graph_replays",
)


def _phase(name: TracePhase, phase: TracedPhase, found: Traced) -> dict[str, object]:
    absent = {} if view.seen(phase) else dict.fromkeys(phase.__struct_fields__, view.absent(found))
    own = {key.removeprefix(f"{name}."): why for key, why in found.missing.items()}
    names = [name for name in phase.__struct_fields__ if name not in ("families", "roles", "speed_of_light", "verdict")]
    why = {**own, **absent}
    return {
        **fields(phase, why, *names),
        "families": {row.family: _row(row) for row in phase.families},
        "roles": {row.role or "not told": _row(row) for row in phase.roles},
        "speed_of_light": _ratios(phase.speed_of_light)
        if phase.speed_of_light
        else fields(phase, why, "speed_of_light")["speed_of_light"],
        **_verdict(phase.verdict, Missing(absent.get("verdict", "it was not judged"))),
    }


def _verdict(verdict: TraceVerdict | None, why: Missing) -> dict[str, object]:
    """Bound, utilisations, floor and parts, under the names that a profile has for them."""
    if verdict is None:
        keys = (
            "bound",
            "called",
            "why",
            "mfu",
            "mbu",
            "step_s",
            "floor_s",
            "attention_share",
            "attention_share_predicted",
        )
        return {**dict.fromkeys(keys, why), "judged_steps": _judged(0), "utilisations": [], "notes": [], "parts": []}
    null = Missing(verdict.why_null or "not judged")
    used = {one.yardstick: one.value for one in reversed(verdict.utilisations)}
    return {
        "bound": verdict.bound if verdict.bound != "unknown" else Missing(verdict.why or "not told"),
        "called": verdict.called or Missing(verdict.why or "not told"),
        "why": verdict.why,
        "mfu": used.get("mfu", null),
        "mbu": used.get("mbu", null),
        "step_s": verdict.step or null,
        "floor_s": verdict.floor or null,
        "judged_steps": _judged(verdict.steps),
        "utilisations": verdict.utilisations,
        "notes": verdict.notes,
        "parts": [
            {
                "name": part.name,
                "seconds": part.seconds,
                "fraction": _fraction(part),
            }
            for part in verdict.parts
        ],
        "attention_share": verdict.attention or null,
        "attention_share_predicted": verdict.attention_predicted or Missing(verdict.attention_why_null or null.reason),
        "alarm": verdict.alarm or Missing("no utilisation is over 100%"),
    }


def _fraction(part: TracePart) -> Quantity:
    """Of the step; open at the end at which the seconds are."""
    ends = {"at least": {"low": part.fraction}, "at most": {"high": part.fraction}}.get(part.seconds.one_sided, {})
    bare = msgspec.structs.replace(part.seconds, value=part.fraction, unit="1", low=None, high=None)
    return msgspec.structs.replace(bare, **ends)


def _judged(steps: int) -> Quantity:
    return reported(steps, "1", "steps that the verdict is of")


def _row(row: FamilyRow | RoleRow) -> dict[str, object]:
    return fields(row, {}, *(name for name in row.__struct_fields__ if name not in ("family", "role")))


def _ratios(counted: SpeedOfLight | MeasuredKernel) -> dict[str, object]:
    """Counters with their percentages as ratios."""
    percentages = {name: getattr(counted, name) for name in _PERCENT}
    ratios = {
        name: reported(value / 100, "1", "counters, of the sustained peak")
        for name, value in percentages.items()
        if value is not None
    }
    return {**fields(counted, {}), **ratios}


def _fix(run: Run, found: Remedy) -> dict[str, object]:
    before = reported(found.step_before, "s", f"{found.phase} step")
    after = predicted(found.step_after, "s", f"{found.phase} step after the change")
    return fix(found, before, after, share_of=f"{found.phase}, of {findings.whole(run)}")


def _with_timeline(tree: dict[str, object], found: Traced) -> dict[str, object]:
    """The bars of the picture as columns: one origin for all of a column, as a grid's."""
    provenance, reasons = tree.pop("provenance"), tree.pop("reasons")
    assert isinstance(provenance, dict)
    columns = {
        name: [getattr(bar, name) for bar in found.timeline]
        for name in ("lane", "start_s", "length_s", "kind", "label")
    }
    origins = {
        f"timeline.{name}": {"unit": unit, "provenance": "reported", "source": "the trace"}
        for name, unit in _TIMELINE.items()
    }
    return {
        **tree,
        "timeline": {**columns, "note": found.timeline_note},
        "provenance": provenance | origins,
        "reasons": reasons,
    }
