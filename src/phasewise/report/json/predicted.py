"""The document of ``predict --json``."""

from __future__ import annotations

from phasewise.record.prediction import Napkin, Prediction, StepPrediction
from phasewise.record.quantity import Quantity, predicted
from phasewise.record.run import Run
from phasewise.report.json import calibrated, parallel, whatif
from phasewise.report.json.closing import close
from phasewise.report.json.leaves import Missing, document
from phasewise.report.json.scaling import scaling
from phasewise.units import Unit

_WHY = "nothing was predicted: name a model and give --on, or --peak and --bandwidth"


def prediction(run: Run) -> dict[str, object]:
    """What the physics allows, every leaf in SI. Ends with the recap."""
    head = {"schema": run.schema, "run": run.envelope, "status": run.envelope.status}
    model = {"model": run.model or Missing("no model is known")}
    beside = {**parallel.sections(run), **whatif.sections(run), **calibrated.sections(run)}
    return close(run, document({**head, **model, **sections(run), **beside}))


def sections(run: Run) -> dict[str, object]:
    """The part that a profile shows too: accelerator, both steps, batch, lengths, request, formulas."""
    found = run.prediction
    if found is None:
        keys = ("accelerator", "prefill", "decode", "ridge_tokens", "attention_crossover_tokens", "request")
        return {**dict.fromkeys(keys, Missing(_WHY)), "batch": [], "lengths": []}
    crossover = found.attention_crossover_tokens
    under = f"{found.basis} ceilings, {found.dtype} matmuls"
    return {
        "basis": found.basis,
        "dtype": found.dtype,
        "accelerator": {
            "name": run.machine.name if run.machine else Missing("no accelerator is named"),
            "devices": run.machine.devices if run.machine else 1,
            "peak_flops": _ceiling(run, found, "FLOP/s"),
            "bandwidth": _ceiling(run, found, "B/s"),
        },
        "prefill": _step(found.prefill, under),
        "decode": _step(found.decode, under),
        "ridge_tokens": predicted(found.ridge_tokens, "token", under),
        "attention_crossover_tokens": Missing("attention never costs as much as the rest: every layer has a window")
        if crossover is None
        else predicted(crossover, "token", "from the model's shape"),
        "request": _request(found, under),
        "batch": _batches(found, under),
        "lengths": _lengths(found, under),
        "prefill_batch": {
            n: predicted(r, "1", f"{under}; time over one prompt") for n, r in found.prefill_batch.items()
        },
        **scaling(found, under),
        "formulas": found.formulas,
    }


def _ceiling(run: Run, found: Prediction, unit: Unit) -> Quantity:
    """The ceiling as it was used (all devices), with the provenance of the machine's own figure."""
    used = found.peak_flops if unit == "FLOP/s" else found.bandwidth
    for ceilings in run.machine.ceilings if run.machine else ():
        own = ceilings.compute.get(found.dtype) if unit == "FLOP/s" else ceilings.bandwidth
        if ceilings.basis == found.basis and own is not None:
            return Quantity(value=used, unit=unit, provenance=own.provenance, source=own.source)
    return Quantity(value=used, unit=unit, provenance="assumed", source=f"{found.basis} ceilings")


def _step(step: StepPrediction, under: str) -> dict[str, object]:
    return {
        "tokens": step.tokens,
        "batch": step.batch,
        "flops": predicted(step.flops, "FLOP", "counted"),
        "bytes": predicted(step.bytes, "B", "counted"),
        "weight_bytes": predicted(step.weight_bytes, "B", "counted"),
        "kv_bytes": predicted(step.kv_bytes, "B", "counted"),
        "compute_s": predicted(step.compute_s, "s", under),
        "memory_s": predicted(step.memory_s, "s", under),
        "time_s": predicted(step.time_s, "s", f"floor, {under}"),
        "bound": step.bound,
        "attention_share": predicted(step.attention_share, "1", "of the counted FLOPs"),
        "napkin": _napkin(step.napkin, under),
    }


def _napkin(napkin: Napkin, under: str) -> dict[str, object]:
    return {
        "flops": predicted(napkin.flops, "FLOP", "napkin"),
        "bytes": predicted(napkin.bytes, "B", "napkin"),
        "compute_s": predicted(napkin.compute_s, "s", f"napkin, {under}"),
        "memory_s": predicted(napkin.memory_s, "s", f"napkin, {under}"),
        "bound": napkin.bound,
    }


def _request(found: Prediction, under: str) -> dict[str, object]:
    one = found.request
    return {
        "prompt_tokens": one.prompt_tokens,
        "answer_tokens": one.answer_tokens,
        "ttft_s": predicted(one.ttft_s, "s", f"floor, {under}"),
        "tpot_s": predicted(one.tpot_s, "s", f"floor, {under}"),
        "total_s": predicted(one.total_s, "s", f"floor, {under}"),
        "decode_share": predicted(one.decode_share, "1", "of the request's floor"),
    }


def _batches(found: Prediction, under: str) -> list[dict[str, object]]:
    return [
        {
            "batch": row.batch,
            "step_s": predicted(row.step_s, "s", f"floor, {under}"),
            "throughput_gain": predicted(row.throughput_gain, "1", "over batch 1"),
            "napkin_step_s": predicted(row.napkin_step_s, "s", f"napkin, {under}"),
            "napkin_throughput_gain": predicted(row.napkin_throughput_gain, "1", "napkin, over batch 1"),
        }
        for row in found.batch
    ]


def _lengths(found: Prediction, under: str) -> list[dict[str, object]]:
    return [
        {
            "tokens": row.tokens,
            "time_s": predicted(row.time_s, "s", f"floor, {under}"),
            "bound": row.bound,
            "attention_share": predicted(row.attention_share, "1", "of the counted FLOPs"),
        }
        for row in found.lengths
    ]
