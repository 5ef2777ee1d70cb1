"""What a bare number, or a null, of a record means by its name: unit, provenance and source, or the reason."""

from __future__ import annotations

from typing import NamedTuple

from phasewise.record.quantity import Provenance
from phasewise.units import Unit


class Origin(NamedTuple):
    """Where the numbers of one name come from; a Quantity says so itself."""

    unit: Unit
    provenance: Provenance
    source: str


_COUNTED = "counted from the model's shape"
_LOG = "as the log says"
_STATED = "as stated"

ORIGINS: dict[str, Origin] = {
    "duration_s": Origin("s", "measured", "wall time of the command"),
    "zero": Origin("s", "measured", "Unix time from which the times of the rows count"),
    # the model
    "parameters": Origin("parameter", "predicted", _COUNTED),
    "active_parameters": Origin("parameter", "predicted", _COUNTED),
    "embedding_parameters": Origin("parameter", "predicted", _COUNTED),
    "active_without_embedding": Origin("parameter", "predicted", _COUNTED),
    "vision_parameters": Origin("parameter", "predicted", _COUNTED),
    "prediction_parameters": Origin("parameter", "predicted", _COUNTED),
    "state_bytes_per_request": Origin("B", "predicted", _COUNTED),
    "layers": Origin("layer", "reported", "the model's own shape"),
    "max_context": Origin("token", "reported", "of the model as trained, of a server as it says"),
    # what a figure is for
    "tokens": Origin("token", "assumed", "prompt length or context that the figure is for"),
    "context_tokens": Origin("token", "assumed", "context that the figure is for"),
    "prompt_tokens": Origin("token", "assumed", "of the stated request"),
    "answer_tokens": Origin("token", "assumed", "of the stated request"),
    "weight": Origin("1", "assumed", "part of the mix, as stated"),
    "batch": Origin("request", "assumed", "requests in the step that the figure is for"),
    "gain_batch": Origin("request", "assumed", "requests in the step that the figure is for"),
    "step_tokens": Origin("token", "assumed", "tokens of the step that the activations are of"),
    "lengths": Origin("token", "assumed", _STATED),
    "batches": Origin("request", "assumed", _STATED),
    **{name: Origin("device", "assumed", _STATED) for name in ("devices", "tp", "dp_attention", "ep", "pp")},
    "count": Origin("message", "predicted", "messages of the step"),
    # a log
    "requests": Origin("request", "reported", _LOG),
    "none": Origin("request", "reported", _LOG),
    **{name: Origin("token", "reported", _LOG) for name in ("p50", "p90", "p99", "longest")},
    "tokens_in_per_token_out": Origin("1", "reported", _LOG),
    "requests_per_s": Origin("request/s", "reported", _LOG),
    "blocks": Origin("block", "reported", _LOG),
    "block_tokens": Origin("token", "reported", "of the log's form"),
    "prefill_share": Origin("1", "predicted", "of the floors of both phases"),
    "decode_share": Origin("1", "predicted", "of the floors of both phases"),
}
"""Of every name under which a document may hold a bare number."""

WORKERS: dict[str, Origin] = {
    "worker": Origin("1", "measured", "its number, as in the rows"),
    "members.requests": Origin("request", "measured", "its share of all trials, or what it was given"),
    "returned": Origin("request", "measured", "of those, whose rows arrived"),
    "cpu_share": Origin("1", "measured", "of a core, the worst that the client saw of itself"),
    "lag_p99_s": Origin("s", "measured", "from the kernel's stamp to our reading it, p99, the worst"),
    "clock_error_s": Origin("s", "measured", "its times on our clock are off by no more"),
    "round_trip_s": Origin("s", "measured", "the quickest between it and us"),
    "drift": Origin("1", "measured", "seconds a second that our clock gains on its"),
    "due_error_s": Origin("s", "measured", "its requests were due within this of the plan's time on our clock"),
    "lost.requests": Origin("request", "measured", "of its share, not returned"),
    "lost.in_flight": Origin("request", "measured", "of those, sent when it was last heard of"),
    "lost.from_s": Origin("s", "measured", "from the start of the trial, when it was last heard of"),
    "lost.share": Origin("1", "measured", "part of the load that was missing from then on"),
    "trial": Origin("1", "assumed", "number of the trial"),
}
"""Of the names in a run of several workers."""

NO_WORKER = {
    "cpu_share": "no worker could say",
    "lag_p99_s": "nothing was read, or no worker could say",
    "due_error_s": "a closed loop has no times at which requests are due",
}
"""Why its fields are null."""

REASONS: dict[str, str] = {
    "max_context": "neither the model nor the server says",
    "memory_bytes": "it is not known",
    "usable_bytes": "it is not known",
    "power_limit_w": "it is not known",
    "tdp": "it is not known",
    "link_rate": "it is not known",
    "bandwidth": "it is not known",
    "copy_bandwidth": "it was not measured",
    "zero": "the run has no rows with times",
    "present": "it could not be told",
    "fits": "the accelerator's memory is not known",
    "block_tokens": "the blocks do not have the size of the log's form",
    "latency": "no link is known: give --link",
    "seconds": "no link is known: give --link",
}
"""Why a field of a record is null, by its name."""
