"""The document of ``logs --json``."""

from __future__ import annotations

from phasewise.record.logs import Demand, Logs, Spread
from phasewise.record.run import Run
from phasewise.report.json.leaves import Missing, document
from phasewise.report.view import logs as view


def logs(run: Run, found: Logs) -> dict[str, object]:
    """What the log holds and what it costs, every leaf in SI. Ends with the recap."""
    stated = found.at(found.batch)
    why = Missing(found.missing.get("demands", "nothing was predicted"))
    table = view.recap(found)
    return document(
        {
            "schema": run.schema,
            "run": run.envelope,
            "status": run.envelope.status,
            "model": run.model or Missing("no model is named"),
            "accelerator": {"name": run.machine.name, "devices": run.machine.devices}
            if run.machine
            else Missing("no accelerator is named"),
            "basis": found.basis or why,
            "requests": found.requests,
            "prompt": _spread(found.prompt),
            "answer": _spread(found.answer),
            "tokens_in_per_token_out": _or_missing(found, "tokens_in_per_token_out"),
            "span_s": _or_missing(found, "span"),
            "rates": _or_missing(found, "rates"),
            "reuse": _or_missing(found, "reuse"),
            "beyond_context": _or_missing(found, "beyond"),
            "batch": found.batch,
            "split": _demand(stated) if stated else why,
            "batches": [_demand(demand) for demand in found.demands],
            "bounds": found.bounds or why,
            "files": [
                {
                    "name": one.name,
                    "form": one.form,
                    "requests": one.requests,
                    "prompt_tokens": one.prompt_tokens,
                    "answer_tokens": one.answer_tokens,
                    "span_s": one.span or Missing("it has no column of times"),
                    "split": _demand(one.demand) if one.demand else why,
                }
                for one in found.files
            ],
            "verdict": {
                "owner": stated.owner if stated else why,
                "bound": found.bounds[stated.owner] if stated else why,
                "text": view.owner(found),
            },
            "next": view.next_step(found),
            "recap": {
                column.name: {row[0].text: row[i].text for row in table.rows}
                for i, column in enumerate(table.columns)
                if column.name
            },
        }
    )


def _or_missing(found: Logs, name: str) -> object:
    value = getattr(found, name)
    return Missing(found.missing.get(name, "the log has no answers")) if value is None else value


def _spread(spread: Spread) -> dict[str, object]:
    return {
        "tokens": spread.tokens,
        "p50": spread.p50,
        "p90": spread.p90,
        "p99": spread.p99,
        "longest": spread.longest,
        "none": spread.none,
    }


def _demand(demand: Demand) -> dict[str, object]:
    return {
        "batch": demand.batch,
        "prefill_s": demand.prefill,
        "decode_s": demand.decode,
        "prefill_share": demand.prefill_share,
        "decode_share": demand.decode_share,
        "owner": demand.owner,
        "machines_busy": demand.machines or Missing("the log does not tell time"),
    }
