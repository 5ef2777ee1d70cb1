"""The document of ``judge --json``."""

from __future__ import annotations

from phasewise.record.judgement import PhaseVerdict, Split
from phasewise.record.observation import Phase
from phasewise.record.quantity import reported
from phasewise.record.remedies import Remedy
from phasewise.record.results import Judged, Results, Row, Step
from phasewise.record.run import Run
from phasewise.report.json.fixes import fix
from phasewise.report.json.leaves import Missing, document
from phasewise.report.json.verdict import no_verdict, verdict
from phasewise.report.view import findings
from phasewise.report.view import judged as view


def judged(run: Run) -> dict[str, object]:
    """The tool's figures and the verdict on them, every leaf in SI. Ends with the recap."""
    found = run.results
    assert found is not None
    said = found.reported
    table = view.recap(run, found)
    no_split = Missing("no request's TTFT and TPOT are both known")
    return document(
        {
            "schema": run.schema,
            "run": run.envelope,
            "status": run.envelope.status,
            "verdict": {
                "owner": found.verdict.owner or Missing(found.verdict.text),
                "bound": found.verdict.bound,
                "text": found.verdict.text,
            },
            "tool": said.tool,
            "form": said.form,
            "file": said.file or Missing("the numbers were stated by flags"),
            "names": {"model": said.model or Missing("the file does not name it"), "accelerators": said.accelerators},
            "model": run.model or Missing(found.why_null or "no model is known: give --model"),
            "accelerator": {"name": run.machine.name, "devices": run.machine.devices}
            if run.machine
            else Missing(found.why_null or "no accelerator is known: give --on"),
            "basis": found.basis or Missing(found.why_null),
            "prefill": _phase(found, "prefill"),
            "decode": _phase(found, "decode"),
            "split": _split(found.split) if found.split else no_split,
            "rows": [_row(row, one) for row, one in zip(said.rows, found.rows, strict=True)],
            "scaling": [
                {
                    "batch": one.batch,
                    "step_s": one.step,
                    "throughput": one.throughput,
                    "gain": one.gain,
                    "gain_predicted": one.predicted or Missing(found.why_null or "nothing is predicted"),
                }
                for one in found.scaling
            ],
            "checks": said.checks,
            "alarms": found.alarms,
            "fixes": [_fix(run, one) for one in findings.fixes(run)],
            "rejected": findings.rejected(run),
            "fixes_note": findings.note(run),
            "notes": list(view.notes(found)),
            "recap": {
                column.name: {row[0].text: row[i].text for row in table.rows}
                for i, column in enumerate(table.columns)
                if column.name
            },
        }
    )


def _phase(found: Results, name: Phase) -> dict[str, object]:
    seen = view.phase(found, name)
    if seen is None:
        why = Missing(view.why_not(found, name))
        return {**no_verdict(why), "row": why}
    index = found.prefill_row if name == "prefill" else found.decode_row
    return {**_verdict(seen), "row": found.reported.rows[index].label if index is not None else Missing("none")}


def _verdict(found: PhaseVerdict) -> dict[str, object]:
    return verdict(found, reported(found.at_tokens, "token", "prompt length or mean context"))


def _split(split: Split) -> dict[str, object]:
    return {
        "prompt_tokens": reported(split.prompt_tokens, "token", "of the request"),
        "answer_tokens": reported(split.answer_tokens, "token", "of the request"),
        "ttft_s": split.ttft,
        "decode_s": split.decode,
        "total_s": split.total,
        "prefill_share": reported(split.prefill_share, "1", "TTFT over the total"),
        "decode_share": reported(split.decode_share, "1", "decode steps over the total"),
        "owner": split.owner,
        "sure": split.sure,
    }


def _row(row: Row, judged_row: Judged) -> dict[str, object]:
    unsaid = Missing("the file does not say")
    return {
        "label": row.label,
        "prompt_tokens": unsaid if row.prompt_tokens is None else reported(row.prompt_tokens, "token", "of a request"),
        "answer_tokens": unsaid if row.answer_tokens is None else reported(row.answer_tokens, "token", "of a request"),
        "concurrency": row.concurrency or unsaid,
        "request_rate": row.request_rate or unsaid,
        "ttft_s": row.ttft or unsaid,
        "tpot_s": row.tpot or unsaid,
        "request_s": row.request_s or unsaid,
        "prefill": _step(row, row.prefill, judged_row.prefill, "prefill"),
        "decode": _step(row, row.decode, judged_row.decode, "decode"),
        "split": _split(judged_row.split) if judged_row.split else Missing("TTFT, TPOT and lengths are not all known"),
        "figures": row.figures,
        "notes": row.notes,
    }


def _step(row: Row, step: Step | None, seen: PhaseVerdict | None, name: Phase) -> object:
    if step is None or seen is None:
        return Missing(row.missing.get(name, "the row does not tell it"))
    cached = reported(step.cached, "token", "of the prompt, computed before")
    return {"tokens": step.tokens, "batch": step.batch, "cached": cached, "at_least": step.least, **_verdict(seen)}


def _fix(run: Run, found: Remedy) -> dict[str, object]:
    of = f"{findings.what(found)} of the request's time"
    return fix(found, findings.step_before(run, found), findings.step_after(found), share_of=of)
