"""The document of ``load --json``."""

from __future__ import annotations

from phasewise.record.load import LoadPlan, Spread
from phasewise.record.quantity import measured
from phasewise.record.run import Run
from phasewise.report.json import power
from phasewise.report.json.leaves import Missing, document
from phasewise.report.json.load_names import ORIGINS, REASONS
from phasewise.report.view import load as view
from phasewise.units import Unit

_PARTS = (
    "ttft", "ttft_from_due", "client_queue", "tpot", "itl", "icl", "e2e", "rates", "cached", "goodput", "window",
    "client", "crew", "found",
)  # fmt: skip


_COUNTED: dict[str, Unit] = {"itl": "token", "icl": "message"}
"""What is spread, where it is not requests."""


def plan(found: LoadPlan) -> dict[str, object]:
    """A plan of which nothing was sent."""
    return document({"plan": found, "sent": 0, "text": list(view.plan(found))}, ORIGINS, REASONS)


def load(run: Run) -> dict[str, object]:
    """What was sent and how it was answered, every leaf in SI. Ends with the recap."""
    found = run.load
    assert found is not None
    table = view.recap(found)
    parts = {name: _part(name, getattr(found, name), found.missing.get(name, _why(name))) for name in _PARTS}
    return document(
        {
            "schema": run.schema,
            "run": run.envelope,
            "status": run.envelope.status,
            "target": run.target or Missing("nothing was connected"),
            "plan": found.plan,
            "sent": found.sent,
            "failed": found.failed,
            "broken_off": found.broken_off,
            "unsent": found.unsent,
            "reasons_of_failures": {
                why: measured(many, "request", "failed for this reason") for why, many in found.reasons.items()
            },
            **parts,
            "steady": Missing("it cannot be told") if found.steady is None else found.steady,
            "moments": found.moments,
            "trials": found.trials,
            "rows": found.rows,
            "starts": {
                str(trial): measured(at, "s", "Unix time from which the times of this trial's rows count")
                for trial, at in found.starts.items()
            },
            **power.section(run.power),
            "verdict": {
                "holds": found.goodput.holds
                if found.goodput
                else Missing("no limits were given, or nothing was answered"),
                "breaks_first": found.goodput.first if found.goodput else Missing("no limits were given"),
                "text": view.headline(found),
            },
            "recap": {
                column.name: {row[0].text: row[i].text for row in table.rows}
                for i, column in enumerate(table.columns)
                if column.name
            },
        },
        ORIGINS,
        REASONS,
    )


def _part(name: str, value: object, why: str) -> object:
    if isinstance(value, Spread):
        unit = _COUNTED.get(name, "request")
        points = {**value.points, **{name: Missing(reason) for name, reason in value.missing.items()}}
        return {
            "count": measured(value.count, unit, "values in it"),
            "effective": measured(value.effective, unit, "independent ones that would tell as much, at least"),
            "mean": value.mean,
            "points": points,
        }
    return Missing(why) if value is None else value


def _why(name: str) -> str:
    asked = {"found": "no search was asked for: --find-rate", "crew": "this process sent alone: --workers"}
    return asked.get(name, "nothing that tells it was measured")
