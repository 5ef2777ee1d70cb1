"""The document of ``profile --json``."""

from __future__ import annotations

from phasewise.record.judgement import Judgement, PhaseVerdict, Split
from phasewise.record.observation import DecodeObservation, Phase, PrefillObservation
from phasewise.record.quantity import Quantity, measured
from phasewise.record.remedies import Remedy
from phasewise.record.run import Run
from phasewise.report.json.closing import close
from phasewise.report.json.leaves import Missing, document
from phasewise.report.json.predicted import sections
from phasewise.report.view import findings, heading, phases
from phasewise.report.view.phases import Yardstick
from phasewise.report.view.request import why_no_split


def profile(run: Run) -> dict[str, object]:
    """Everything that a profile found, every leaf in SI. Ends with the recap."""
    judged, seen = run.judgement, run.observation
    body = {
        "schema": run.schema,
        "run": run.envelope,
        "status": run.envelope.status,
        "verdict": _verdict(run),
        "split": _split(run),
        "prefill": {**_prefill(seen.prefill if seen else None), **_judged(run, "prefill")},
        "decode": {**_decode(seen.decode if seen else None), **_judged(run, "decode")},
        "checks": seen.checks if seen else (),
        "fixes": [_fix(fix) for fix in findings.fixes(run)],
        "rejected": findings.rejected(run),
        "fixes_note": findings.note(run),
        "alarms": judged.alarms if judged else (),
        "sampling": _sampling(run),
        "target": run.target or Missing("no target is recorded"),
        "model": run.model or Missing("no model is known: give --model"),
        "machine": run.machine or Missing("no accelerator is known: give --on"),
        "prediction": sections(run) if run.prediction else Missing("a prediction needs both model and machine"),
    }
    return close(run, document(body))


def _verdict(run: Run) -> dict[str, object]:
    judged: Judgement | None = run.judgement
    owner = judged.verdict.owner if judged else None
    return {
        "owner": owner or Missing(heading.headline(run)),
        "bound": judged.verdict.bound if judged else Missing(heading.headline(run)),
        "text": judged.verdict.text if judged else heading.headline(run),
    }


def _split(run: Run) -> dict[str, object]:
    judged = run.judgement
    why = Missing(why_no_split(run) or "no request was judged")
    shares = (judged.prefill_share, judged.decode_share) if judged else (None, None)
    prefill, decode = (why if s is None else measured(s, "1", "over the mix of stated requests") for s in shares)
    requests = [_request(split) for split in (judged.splits if judged else ())]
    return {"prefill_share": prefill, "decode_share": decode, "requests": requests}


def _request(split: Split) -> dict[str, object]:
    return {
        "prompt_tokens": split.prompt_tokens,
        "answer_tokens": split.answer_tokens,
        "weight": split.weight,
        "ttft_s": split.ttft,
        "decode_s": split.decode,
        "total_s": split.total,
        "prefill_share": measured(split.prefill_share, "1", "TTFT over the total"),
        "decode_share": measured(split.decode_share, "1", "decode steps over the total"),
        "owner": split.owner,
        "ttft_owner": split.ttft_owner,
    }


def _prefill(seen: PrefillObservation | None) -> dict[str, object]:
    fit = seen.fit if seen else None
    why = Missing("prefill was not measured" if seen is None else "a fit needs at least two prompt lengths")
    return {
        "points": [
            {
                "tokens": point.tokens,
                "ttft_s": point.ttft,
                "ci": _ci(point.ttft),
                "best_s": measured(point.best, "s", "fastest sample"),
                "samples": point.samples,
            }
            for point in (seen.points if seen else ())
        ],
        "fit": {
            "overhead_s": fit.overhead if fit else why,
            "per_token_s": fit.per_token if fit else why,
            "per_token2_s": fit.per_token2 if fit else why,
            "residual": fit.residual if fit else why,
        },
    }


def _decode(seen: DecodeObservation | None) -> dict[str, object]:
    fit = seen.fit if seen else None
    missing = Missing("decode was not measured")
    why = missing if seen is None else Missing("a fit needs at least two contexts")
    return {
        "tpot_s": seen.tpot if seen else missing,
        "ci": _ci(seen.tpot) if seen else missing,
        "tpot_context": seen.tpot_context if seen else missing,
        "per_context_token_s": fit.per_context_token if fit else why,
        "fit": {
            "at_zero_s": fit.at_zero if fit else why,
            "per_context_token_s": fit.per_context_token if fit else why,
            "residual": fit.residual if fit else why,
        },
        "tokens_per_chunk": seen.tokens_per_chunk if seen else missing,
        "points": [
            {
                "context": point.context,
                "prompt_tokens": point.prompt_tokens,
                "generated": point.generated,
                "tpot_s": point.tpot,
                "ci": _ci(point.tpot),
                "samples": point.samples,
            }
            for point in (seen.points if seen else ())
        ],
    }


def _judged(run: Run, phase: Phase) -> dict[str, object]:
    verdict = heading.verdict_of(run, phase)
    why = Missing(f"{phase} was not {'judged' if heading.measured(run, phase) else 'measured'}")
    if verdict is None:
        keys = ("mfu", "mbu", "yardstick", "bound", "at_tokens", "step_s", "floor_s", "believed")
        return {**dict.fromkeys(keys, why), "shares": [], "utilisations": [], "notes": []}
    return {
        "mfu": _utilisation(verdict, "mfu"),
        "mbu": _utilisation(verdict, "mbu"),
        "yardstick": verdict.yardstick,
        "bound": verdict.bound,
        "at_tokens": verdict.at_tokens,
        "step_s": verdict.step,
        "floor_s": verdict.floor or Missing(verdict.why_null or "no floor was predicted"),
        "believed": verdict.believed,
        "shares": verdict.shares,
        "utilisations": verdict.utilisations,
        "notes": verdict.notes,
    }


def _utilisation(verdict: PhaseVerdict, yardstick: Yardstick) -> Quantity | Missing:
    return phases.utilisation(verdict, yardstick) or Missing(verdict.why_null or "not judged")


def _ci(quantity: Quantity) -> list[float] | Missing:
    if quantity.low is None or quantity.high is None:
        return Missing("no interval is claimed")
    return [quantity.low, quantity.high]


def _fix(fix: Remedy) -> dict[str, object]:
    return {
        "name": fix.name,
        "phase": fix.phase,
        "saves_s": fix.saves,
        "saves_share": Quantity(
            value=fix.saves_share, unit="1", provenance="predicted", source="of the stated request"
        ),
        "step_before_s": findings.step_before(fix),
        "step_after_s": findings.step_after(fix),
        "why": fix.why,
        "verify": fix.verify,
    }


def _sampling(run: Run) -> dict[str, object] | Missing:
    seen = run.observation
    if seen is None:
        return Missing("nothing was measured")
    return {
        "requests": seen.requests,
        "prompt_tokens": seen.prompt_tokens,
        "output_tokens": seen.output_tokens,
        "stopped": seen.stopped,
    }
