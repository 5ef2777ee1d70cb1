"""The document of ``load --json``."""

from __future__ import annotations

from phasewise.record.load import LoadPlan, Spread
from phasewise.record.run import Run
from phasewise.report.json import power
from phasewise.report.json.leaves import Missing, document
from phasewise.report.view import load as view

_PARTS = (
    "ttft", "ttft_from_due", "client_queue", "tpot", "itl", "icl", "e2e", "rates", "cached", "goodput", "window",
    "client", "crew", "found",
)  # fmt: skip


def plan(found: LoadPlan) -> dict[str, object]:
    """A plan of which nothing was sent."""
    return document({"plan": found, "sent": 0, "text": list(view.plan(found))})


def load(run: Run) -> dict[str, object]:
    """What was sent and how it was answered, every leaf in SI. Ends with the recap."""
    found = run.load
    assert found is not None
    table = view.recap(found)
    parts = {name: _or_missing(getattr(found, name), found.missing.get(name, _why(name))) for name in _PARTS}
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
            "reasons_of_failures": found.reasons,
            **parts,
            "steady": Missing("it cannot be told") if found.steady is None else found.steady,
            "moments": found.moments,
            "trials": found.trials,
            "rows": found.rows,
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
        }
    )


def _or_missing(value: object, why: str) -> object:
    if isinstance(value, Spread):
        points = {**value.points, **{name: Missing(reason) for name, reason in value.missing.items()}}
        return {"count": value.count, "effective": value.effective, "mean": value.mean, "points": points}
    return Missing(why) if value is None else value


def _why(name: str) -> str:
    asked = {"found": "no search was asked for: --find-rate", "crew": "this process sent alone: --workers"}
    return asked.get(name, "nothing that tells it was measured")
