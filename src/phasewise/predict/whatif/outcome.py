"""A setup to its times, taken apart by operation and resource."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from phasewise.model.passes import Count
from phasewise.predict.chunks import mixed
from phasewise.predict.launches import GRAPH_S, host_s
from phasewise.predict.parallel.spread import Spread, Step
from phasewise.predict.request import decode_time
from phasewise.predict.speculation import proposing, tokens_per_step, verify
from phasewise.predict.whatif.setup import Setup
from phasewise.record.whatif import Outcome

_GROUPS = {
    "qkv": "attention projections",
    "output": "attention projections",
    "cross": "attention projections",
    "recurrence": "attention projections",
    "mlp_in": "MLP",
    "mlp_out": "MLP",
    "experts": "experts",
    "shared_in": "shared experts",
    "shared_out": "shared experts",
    "attention": "attention",
    "indexer": "attention",
    "state": "recurrent state",
    "norm": "norms",
}
"""What the operations of a step are called together; any other keeps its own name."""

Part = tuple[str, str]
"""An operation, and the resource that it waits for (empty where that says nothing more)."""

Parts = dict[Part, float]
"""Seconds by operation and resource."""


class Timed(NamedTuple):
    """Seconds of one or several steps, and what they are made of."""

    time_s: float
    parts: Parts


class Full(NamedTuple):
    """An outcome and what its phases are made of: a prefill, and a decode step."""

    shown: Outcome
    prefill: Parts
    decode: Parts


def outcome(setup: Setup) -> Full:
    """The least times of ``setup``."""
    prefill, decode = prefill_of(setup), decode_of(setup)
    yields = tokens_per_step(setup.draft.tokens, setup.draft.acceptance) if setup.draft else 1.0
    rest = decode_time(lambda context: _step_s(setup, context) / yields, setup.prompt, setup.answer)
    shown = Outcome(
        batch=setup.batch,
        devices=setup.layout.devices,
        ttft_s=prefill.time_s,
        step_s=decode.time_s,
        tokens_per_step=yields,
        tpot_s=decode.time_s / yields,
        stall_s=_stall(setup),
        tokens_per_s=setup.batch * yields / decode.time_s,
        total_s=prefill.time_s + rest,
        fits=setup.fits,
    )
    return Full(shown, prefill.parts, decode.parts)


def prefill_of(setup: Setup) -> Timed:
    """A prompt until its first token: alone, or in chunks beside the decodes."""
    spread = setup.spread
    whole = setup.chunk is None
    step = spread.prefill(float(setup.prompt), 1.0, float(setup.cached)) if whole else _mixed(setup)
    return _timed(spread, step, _host(setup, step))


def decode_of(setup: Setup) -> Timed:
    """A decode step at the prompt's length; with a draft, proposing and verifying."""
    spread, context, batch = setup.spread, float(setup.prompt), float(setup.batch)
    if setup.draft is None:
        step = spread.decode(context, batch)
        return _timed(spread, step, _host(setup, step))
    step = verify(spread, setup.draft, context, batch)
    checked = _timed(spread, step, _host(setup, step))
    drafting = float(proposing(spread, setup.draft, context, batch))
    return Timed(checked.time_s + drafting, {**checked.parts, ("draft", ""): drafting})


def host_of(setup: Setup) -> float:
    """Seconds that the host takes to launch a decode step of ``setup``."""
    return _host(setup, setup.spread.decode(float(setup.prompt), float(setup.batch)))


def _step_s(setup: Setup, context: Count) -> Count:
    """Seconds of a decode step over an array of contexts."""
    spread, batch = setup.spread, float(setup.batch)
    if setup.draft is None:
        step = spread.decode(context, batch)
        return np.maximum(step.time_s, _host(setup, step))
    step = verify(spread, setup.draft, context, batch)
    return np.maximum(step.time_s, _host(setup, step)) + proposing(spread, setup.draft, context, batch)


def _mixed(setup: Setup) -> Step:
    return mixed(
        setup.spread,
        setup.prompt,
        setup.cached,
        setup.chunk,
        decodes=float(setup.decodes),
        context=float(setup.prompt),
    )


def _stall(setup: Setup) -> float | None:
    """The longest step that the other requests of the batch share with a prompt."""
    if not setup.decodes:
        return None
    step = _mixed(setup)
    return float(np.max(np.maximum(step.time_s, _host(setup, step))))


def _host(setup: Setup, step: Step) -> float:
    if setup.launches == "free":
        return 0.0
    if setup.launches == "graph":
        return GRAPH_S
    return host_s(setup.model, sum(one.times for one in step.collectives), each=setup.launch_s)


def _timed(spread: Spread, step: Step, host: float) -> Timed:
    """The seconds of ``step`` (summed over its elements), none of which is shorter than the host takes to launch it."""
    shape = np.shape(step.time_s)
    parts: Parts = {}

    def put(name: str, resource: str, seconds: Count) -> None:
        total = float(np.sum(np.broadcast_to(seconds, shape)))
        if total > 0:
            parts[name, resource] = parts.get((name, resource), 0.0) + total

    for op in step.work.operations:
        math = op.flops / spread.roof.compute.value
        reading = (op.weight_bytes + op.kv_bytes) / spread.roof.bandwidth.value
        name = _GROUPS.get(op.name, op.name)
        # An operation is bound on one of the two, so that the other's part of it is nothing.
        put(name, "compute", np.where(math >= reading, math, 0.0))
        put(name, "memory", np.where(math < reading, reading, 0.0))
    put("communication", "", step.communication_s)
    put("waiting for other stages", "", step.waiting_s)
    put("launches", "", np.maximum(0.0, host - step.time_s))
    return Timed(float(np.sum(np.maximum(step.time_s, host))), parts)
