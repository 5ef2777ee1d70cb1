"""The back of an envelope: 2·P·N FLOPs, all weights read once, P every parameter.

Of a mixture of experts, P are the parameters that a token uses, and the weights read are those that the step touches.
"""

from __future__ import annotations

from phasewise.model.model import Model
from phasewise.predict.roofline import Roof
from phasewise.record.prediction import Napkin


def prefill(model: Model, roof: Roof, tokens: float, batch: float = 1.0) -> Napkin:
    """Math for every prompt token against one read of the weights."""
    weights = float(model.touched_bytes(tokens * batch))
    return _napkin(2.0 * model.active_parameters * tokens * batch, weights, roof)


def decode(model: Model, roof: Roof, context: float, batch: float = 1.0) -> Napkin:
    """One token's math per request against one read of the weights and of each request's KV cache and state."""
    held = model.kv_bytes_per_token * context + 2 * model.state_bytes_per_request
    return _napkin(2.0 * model.active_parameters * batch, float(model.touched_bytes(batch)) + held * batch, roof)


def _napkin(flops: float, bytes_: float, roof: Roof) -> Napkin:
    compute, memory = flops / roof.compute.value, bytes_ / roof.bandwidth.value
    return Napkin(
        flops=flops,
        bytes=bytes_,
        compute_s=compute,
        memory_s=memory,
        bound="compute" if compute >= memory else "memory",
    )


def time(napkin: Napkin) -> float:
    """The napkin's step time: the slower of the two, over the whole step."""
    return max(napkin.compute_s, napkin.memory_s)
