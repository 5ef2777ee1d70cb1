"""How decode scales, as JSON: ``fits``, ``decode_turns_compute_bound_at`` and ``contexts``."""

from __future__ import annotations

from phasewise.record.prediction import Prediction
from phasewise.record.quantity import Quantity, predicted
from phasewise.record.scaling import ContextRow, Fits, Scaling
from phasewise.report.json.leaves import Missing
from phasewise.units import Unit

_NEVER = Missing("no batch: reading a request's KV and state takes longer than its math")
_UNKNOWN = Missing("the accelerator's memory is not known")
_NOTHING = Missing("nothing fits, or the memory is not known")


def scaling(found: Prediction, under: str) -> dict[str, object]:
    """The keys of ``found.scaling``; none where it was not asked for."""
    if found.scaling is None:
        return {}
    return {
        "decode_turns_compute_bound_at": _turns(found.scaling.compute_bound_at, under),
        "fits": _UNKNOWN if found.scaling.fits is None else _fits(found.scaling.fits),
        "contexts": [_row(row, found.scaling, under) for row in found.scaling.rows],
    }


def _turns(batch: int | None, under: str) -> object:
    return _NEVER if batch is None else predicted(batch, "1", f"batch at which math takes as long as reading, {under}")


def _fits(fits: Fits) -> dict[str, object]:
    return {
        "context_tokens": fits.context,
        "largest_batch": predicted(fits.largest_batch, "1", "requests that memory holds"),
        "memory_bytes": fits.memory_bytes,
        "usable_share": fits.usable_share,
        "weights_bytes": predicted(fits.weights_bytes, "B", "resident weights"),
        "kv_bytes": predicted(fits.kv_bytes, "B", "KV cache of the largest batch"),
        "kv_bytes_per_request": predicted(fits.kv_bytes_per_request, "B", "KV cache of one request"),
        "state_bytes": predicted(fits.state_bytes, "B", "recurrent states and encoded tokens of the largest batch"),
        "activation_bytes": predicted(fits.activation_bytes, "B", f"a step of {fits.step_tokens} tokens"),
        "step_tokens": fits.step_tokens,
        "least_devices": predicted(fits.least_devices, "1", "devices that hold the weights and one request"),
    }


def _row(row: ContextRow, found: Scaling, under: str) -> dict[str, object]:
    return {
        "context_tokens": row.context,
        "step_s": predicted(row.step_s, "s", f"floor, {under}"),
        "gain_batch": found.gain_batch,
        "throughput_gain": predicted(row.throughput_gain, "1", f"batch {found.gain_batch} over batch 1"),
        "turns_compute_bound_at": _turns(row.compute_bound_at, under),
        "largest_batch": _UNKNOWN if row.largest_batch is None else predicted(row.largest_batch, "1", "that fits"),
        "largest_step_s": _or(row.largest_step_s, "s", f"floor, {under}"),
        "largest_tokens_per_s": _or(row.largest_tokens_per_s, "token/s", under),
    }


def _or(value: float | None, unit: Unit, source: str) -> Quantity | Missing:
    return _NOTHING if value is None else predicted(value, unit, source)
