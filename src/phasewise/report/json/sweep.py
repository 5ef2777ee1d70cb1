"""The document of ``sweep --json``."""

from __future__ import annotations

from phasewise.record.quantity import Quantity, measured, predicted, reported
from phasewise.record.run import Run
from phasewise.record.sweep import Advice, Broken, Cell, Mix, Plane, Stall, Surface, Swept, Together, Traffic
from phasewise.report.json import power
from phasewise.report.json.bare import NO_WORKER, WORKERS
from phasewise.report.json.leaves import Missing, document
from phasewise.report.view import sweep as view
from phasewise.report.view import sweep_tables

_NOT_MEASURED = Missing("it was not measured")
_NO_GROUND = Missing("a floor needs both --model and --on")


def sweep(run: Run) -> dict[str, object]:
    """Everything that a sweep found, every leaf in SI. Ends with the recap."""
    found, seen = run.sweep, run.observation
    table = sweep_tables.recap(run)
    gain = view.top(found) if found else None
    stall = view.heaviest(found.mix) if found else None
    body = {
        "schema": run.schema,
        "run": run.envelope,
        "status": run.envelope.status,
        "verdict": {
            "text": view.headline(run),
            "gain": gain.measured if gain else _NOT_MEASURED,
            "gain_batch": _sent(gain.batch) if gain else _NOT_MEASURED,
            "gain_predicted": (gain.predicted or _NO_GROUND) if gain else _NOT_MEASURED,
            "until": view.until(found) if found else "",
            "stall_s": stall.stall if stall else _NOT_MEASURED,
        },
        "notices": view.notices(run),
        "decode": _decode(found, found.surface) if found and found.surface else _NOT_MEASURED,
        "prefill": _prefill(found.together) if found and found.together else _NOT_MEASURED,
        "mix": _mix(found.mix) if found and found.mix else _NOT_MEASURED,
        "advice": [_advice(one) for one in (found.advice if found else ())],
        "checks": seen.checks if seen else (),
        **power.section(run.power),
        "plan": found.plan if found else (),
        "crew": (found.crew if found else None) or Missing("this process sent alone: --workers"),
        "sampling": {
            "requests": measured(seen.requests, "request", "answered in all"),
            "prompt_tokens": reported(seen.prompt_tokens, "token", "sent in all"),
            "output_tokens": reported(seen.output_tokens, "token", "received in all"),
            "stopped": seen.stopped,
        }
        if seen
        else _NOT_MEASURED,
        "target": run.target or Missing("no target is recorded"),
        "model": run.model or Missing("no model is known: give --model"),
        "machine": run.machine or Missing("no accelerator is known: give --on"),
        "recap": {row[0].text: row[1].text for row in table.rows},
    }
    return document(body, WORKERS, NO_WORKER)


def _sent(batch: float) -> Quantity:
    return measured(batch, "request", "sent together")


def _tokens(tokens: float) -> Quantity:
    return reported(tokens, "token", "the server's count, as sent when it gives none")


def _share(value: float, source: str) -> Quantity:
    return measured(value, "1", source)


def _decode(found: Swept, surface: Surface) -> dict[str, object]:
    gains = {(gain.batch, gain.prompt_tokens): gain for gain in surface.gains}
    room = surface.room
    return {
        "cells": [{**held(cell), **_gain(gains.get((cell.batch, cell.prompt_tokens)))} for cell in surface.cells],
        "fit": _plane(surface.plane) if surface.plane else Missing("too few batches and contexts were held"),
        "limit": _sent(surface.limit) if surface.limit else Missing("no limit was met or stated"),
        "limit_by": surface.limit_by,
        "kv_room": {"held": _tokens(room.held), "full": _tokens(room.full)} if room else Missing("it never ran full"),
        "tokens_per_chunk": measured(surface.tokens_per_chunk, "token/chunk", "mean of the chunks that carried any"),
        "ridge_tokens": found.ridge_tokens or _NO_GROUND,
        "compute_bound_at": predicted(found.compute_bound_at, "request", "at the shortest context measured")
        if found.compute_bound_at
        else (Missing("no batch is") if found.ridge_tokens else _NO_GROUND),
    }


def held(cell: Cell) -> dict[str, object]:
    """One batch after prompts of one length."""
    why = Missing(cell.trouble or "it was not held long enough")
    return {
        "batch": _sent(cell.batch),
        "prompt_tokens": _tokens(cell.prompt_tokens),
        "context": _tokens(cell.context),
        "step_s": cell.step or why,
        "tokens_per_s": cell.throughput or why,
        "floor_s": cell.floor or _NO_GROUND,
        "samples": measured(cell.samples, "request", "steady windows"),
        "steps": measured(cell.steps, "token", "of one stream in them"),
        "together": measured(cell.together, "request", "most that ran at one moment"),
        "proof": cell.proof,
        "proved_by": cell.proved_by,
        "trouble": cell.trouble,
        "streams_differ": _share(cell.streams_differ, "of the mean time per token between streams"),
    }


def _gain(gain: object) -> dict[str, object]:
    why = Missing("it takes the same prompt at batch 1")
    return {
        "gain": getattr(gain, "measured", why),
        "gain_predicted": getattr(gain, "predicted", None) or (_NO_GROUND if gain else why),
    }


def _plane(plane: Plane) -> dict[str, object]:
    return {
        "base_s": plane.base,
        "per_request_s": plane.per_request,
        "per_context_token_s": plane.per_context_token,
        "residual": _share(plane.residual, "median absolute relative error of the fit"),
        "broken": _broken(plane.broken) if plane.broken else Missing("the steps do not leave the plane"),
    }


def _broken(broken: Broken) -> dict[str, object]:
    return {
        "kind": broken.kind,
        "after": _sent(broken.after),
        "before": _sent(broken.before),
        "extra_s": broken.extra,
        "share": _share(broken.share, "jump over the step before it; slope beyond a knee over the slope before"),
    }


def _prefill(together: Together) -> dict[str, object]:
    return {
        "tokens": _tokens(together.tokens),
        "at_once": [
            {
                "prompts": _sent(row.prompts),
                "all_first_s": row.all_first,
                "ratio": row.ratio,
                "ratio_predicted": row.predicted_ratio or _NO_GROUND,
                "apart": _share(row.apart, "from the first of the first tokens to the last"),
                "samples": measured(row.samples, "request", "repeats"),
            }
            for row in together.rows
        ],
    }


def _mix(mix: Mix) -> dict[str, object]:
    fit, chunk = mix.fit, mix.chunk
    return {
        "stalls": [_stall(stall) for stall in mix.stalls],
        "fit": {
            "per_step_s": fit.per_step,
            "per_token_s": fit.per_token,
            "per_token2_s": fit.per_token2,
            "residual": _share(fit.residual, "median absolute relative error of the fit"),
        }
        if fit
        else Missing("too few prompts stalled anything"),
        "chunk": {
            "least": measured(chunk.least, "token", "by the number of slow steps"),
            "most": measured(chunk.most, "token", "by the number of slow steps")
            if chunk.most
            else Missing("no prompt was cut"),
            "shared": Missing("it could not be told") if chunk.shared is None else chunk.shared,
        }
        if chunk
        else Missing("the numbers of slow steps agree on no size"),
        "traffic": _traffic(mix.traffic) if mix.traffic else _NOT_MEASURED,
    }


def _stall(stall: Stall) -> dict[str, object]:
    return {
        "batch": _sent(stall.batch),
        "tokens": _tokens(stall.tokens),
        "step_s": stall.step,
        "stall_s": stall.stall,
        "slow_steps": measured(stall.slow_steps, "token", "tokens of a decode that came late"),
        "longest_gap_s": stall.slowest,
        "ttft_s": stall.ttft,
        "ttft_alone_s": stall.alone or _NOT_MEASURED,
        "samples": measured(stall.samples, "request", "prompts"),
    }


def _traffic(seen: Traffic) -> dict[str, object]:
    return {
        "batch": _sent(seen.batch),
        "tokens": _tokens(seen.tokens),
        "requests_per_s": seen.rate,
        "load": _share(seen.load, "rate times TTFT alone"),
        "ttft_s": seen.ttft,
        "ttft_alone_s": seen.ttft_alone,
        "wait_md1_s": seen.wait_formula or Missing("the load is 1 or more"),
        "wait_arrivals_s": seen.wait_arrivals or _NOT_MEASURED,
        "mix_s": seen.mix or _NOT_MEASURED,
        "step_alone_s": seen.step_alone,
        "tpot_s": seen.tpot,
        "itl_p99_s": seen.itl_p99,
        "samples": measured(len(seen.arrivals), "request", "prompts"),
    }


def _advice(one: Advice) -> dict[str, object]:
    return {
        "name": one.name,
        "answer": one.answer,
        "text": one.text,
        "value": one.value or Missing("no single number answers it"),
        "arithmetic": one.arithmetic,
        "assumes": one.assumes,
    }
