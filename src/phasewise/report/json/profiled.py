"""The document of ``profile --json``."""

from __future__ import annotations

from msgspec.structs import replace

from phasewise.record.judgement import Judgement, Split
from phasewise.record.observation import DecodeObservation, Phase, PrefillObservation
from phasewise.record.quantity import Quantity, measured, reported
from phasewise.record.remedies import Remedy
from phasewise.record.run import Run
from phasewise.report.json import beside, power, servers
from phasewise.report.json.closing import close
from phasewise.report.json.fixes import fix
from phasewise.report.json.leaves import Missing, document
from phasewise.report.json.predicted import sections
from phasewise.report.json.verdict import no_verdict, verdict
from phasewise.report.view import findings, heading
from phasewise.report.view.request import why_no_split

_CONTEXT = "mean context, by the server's counts"


def profile(run: Run) -> dict[str, object]:
    """Everything that a profile found, every leaf in SI. Ends with the recap."""
    judged, seen = run.judgement, run.observation
    body = {
        "schema": run.schema,
        "run": run.envelope,
        "status": run.envelope.status,
        "verdict": _verdict(run),
        "notices": heading.notices(run),
        "split": _split(run),
        "prefill": {**_prefill(seen.prefill if seen else None), **_judged(run, "prefill")},
        "decode": {**_decode(seen.decode if seen else None), **_judged(run, "decode")},
        "server_timings": servers.timings(run),
        "reasoning": servers.reasoning(run),
        **beside.sections(run),
        "checks": seen.checks if seen else (),
        **power.section(run.power),
        "fixes": [_fix(run, one) for one in findings.fixes(run)],
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
        "prefill_share": _share(split, split.prefill_share, "TTFT over the total"),
        "decode_share": _share(split, split.decode_share, "decode steps over the total"),
        "owner": split.owner,
        "sure": split.sure,
        "ttft_owner": split.ttft_owner,
    }


def _share(split: Split, value: float, source: str) -> Quantity:
    return Quantity(value=value, unit="1", provenance=split.total.provenance, source=source)


def _prefill(seen: PrefillObservation | None) -> dict[str, object]:
    fit = seen.fit if seen else None
    why = Missing("prefill was not measured" if seen is None else "a fit needs at least two prompt lengths")
    return {
        "points": [
            {
                "tokens": reported(point.tokens, "token", "the server's count, as sent when it gives none"),
                "ttft_s": point.ttft,
                "ci": _ci(point.ttft),
                "best_s": measured(point.best, "s", "fastest sample"),
                "samples": measured(point.samples, "request", "requests at this point"),
            }
            for point in (seen.points if seen else ())
        ],
        "fit": {
            "overhead_s": fit.overhead if fit else why,
            "per_token_s": fit.per_token if fit else why,
            "per_token2_s": fit.per_token2 if fit else why,
            "residual": _residual(fit.residual) if fit else why,
        },
    }


def _decode(seen: DecodeObservation | None) -> dict[str, object]:
    fit = seen.fit if seen else None
    missing = Missing("decode was not measured")
    why = missing if seen is None else Missing("a fit needs at least two contexts")
    return {
        "tpot_s": seen.tpot if seen else missing,
        "ci": _ci(seen.tpot) if seen else missing,
        "tpot_context": reported(seen.tpot_context, "token", _CONTEXT) if seen else missing,
        "per_context_token_s": fit.per_context_token if fit else why,
        "fit": {
            "at_zero_s": fit.at_zero if fit else why,
            "per_context_token_s": fit.per_context_token if fit else why,
            "residual": _residual(fit.residual) if fit else why,
        },
        "tokens_per_chunk": measured(seen.tokens_per_chunk, "token/chunk", "mean of the chunks that carried any")
        if seen
        else missing,
        "points": [
            {
                "context": reported(point.context, "token", _CONTEXT),
                "prompt_tokens": reported(point.prompt_tokens, "token", "the server's count"),
                "generated": reported(point.generated, "token", "the server's count"),
                "tpot_s": point.tpot,
                "ci": _ci(point.tpot),
                "samples": measured(point.samples, "request", "requests at this point"),
            }
            for point in (seen.points if seen else ())
        ],
    }


def _judged(run: Run, phase: Phase) -> dict[str, object]:
    found = heading.verdict_of(run, phase)
    if found is None:
        return no_verdict(Missing(f"{phase} was not {'judged' if heading.measured(run, phase) else 'measured'}"))
    return verdict(found, measured(found.at_tokens, "token", "where the step is taken apart"))


def _residual(value: float) -> Quantity:
    return measured(value, "1", "median absolute relative error of the fit")


def _ci(quantity: Quantity) -> list[Quantity] | Missing:
    if quantity.low is None or quantity.high is None:
        return Missing("no interval is claimed")
    ends = {"lower": quantity.low, "upper": quantity.high}
    return [replace(quantity, value=v, low=None, high=None, source=f"{end} end") for end, v in ends.items()]


def _fix(run: Run, found: Remedy) -> dict[str, object]:
    of = f"{findings.what(found)} of the request's time"
    return fix(found, findings.step_before(run, found), findings.step_after(found), share_of=of)


def _sampling(run: Run) -> dict[str, object] | Missing:
    seen = run.observation
    if seen is None:
        return Missing("nothing was measured")
    return {
        "requests": measured(seen.requests, "request", "sent in all"),
        "prompt_tokens": reported(seen.prompt_tokens, "token", "sent in all"),
        "output_tokens": reported(seen.output_tokens, "token", "received in all"),
        "stopped": seen.stopped,
    }
